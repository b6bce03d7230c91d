"""Locks of Python, to compare with leasehold: redis-py's `Lock` and python-redis-lock.

Arguments and output: ../README.md.
"""

import json
import math
import resource
import sys
import threading
import time
from collections import Counter

import redis
import redis_lock

TTL_S = 30


def redis_py(client, name):
    """As in its documentation, but with a pause between two tries of less than its 100 ms."""
    return client.lock(name, timeout=TTL_S, sleep=0.01)


def python_redis_lock(client, name):
    return redis_lock.Lock(client, name, expire=TTL_S)


LOCKS = {"redis-py": redis_py, "python-redis-lock": python_redis_lock}


def main():
    lock_of = LOCKS[sys.argv[1]]
    port, mode, tasks, seconds = int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
    prefix = sys.argv[6]
    client = redis.Redis(port=port, max_connections=tasks + 1)
    entries, longest, counts = [0] * tasks, [0.0] * tasks, [Counter() for _ in range(tasks)]
    begin, ends_at = threading.Event(), [0.0]

    def work(task):
        lock = lock_of(client, prefix if mode == "hot" else f"{prefix}-{task}")
        begin.wait()
        while time.monotonic() < ends_at[0]:
            asked = time.perf_counter()
            lock.acquire()
            waited_us = (time.perf_counter() - asked) * 1e6
            bucket = int(math.log(max(waited_us, 1.0)) / math.log(1.05))
            counts[task][bucket] += 1
            longest[task] = max(longest[task], waited_us)
            entries[task] += 1
            lock.release()

    with lock_of(client, f"{prefix}-warm"):
        pass
    threads = [threading.Thread(target=work, args=(task,)) for task in range(tasks)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    ends_at[0] = time.monotonic() + seconds
    begin.set()
    for thread in threads:
        thread.join()
    waits = sum(counts, Counter())
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"entries": entries, "waits": waits, "longest_us": max(longest), "rss_kib": rss}))


main()
