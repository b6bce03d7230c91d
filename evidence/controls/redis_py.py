"""A negative control: redis-py's own Lock. README.md says how it is called."""

import random
import sys
import threading
import time

import redis
from redis.exceptions import RedisError
from redis.sentinel import Sentinel

place, protected, log, number, seed, tasks, ttl_ms, names = sys.argv[1:]
number, ttl = int(number), int(ttl_ms) / 1000

# A place that gives no answer is given up after this.
TIMEOUTS = {"socket_timeout": 1, "socket_connect_timeout": 1}


def connect():
    kind, *words = place.split(",")
    if kind == "one":
        return redis.Redis(port=int(words[0]), **TIMEOUTS)
    sentinels = [("127.0.0.1", int(port)) for port in words[1:]]
    return Sentinel(sentinels, **TIMEOUTS).master_for(words[0], **TIMEOUTS)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


lines = open(log, "a", buffering=1)
writing = threading.Lock()
counted = number << 48
served = 0
over = threading.Event()


def fresh():
    global counted
    with writing:
        counted += 1
        return counted


def write(line):
    with writing:
        lines.write(line + "\n")


def turn(client, values, choices):
    global served
    name = f"campaign/r{choices.randrange(int(names))}"
    lock = client.lock(name, timeout=ttl, sleep=0.01)
    asked = now()
    if not lock.acquire(blocking_timeout=2):
        return
    entered, own = now(), fresh()
    write(f"g {name} {own} {asked} {entered} {own} {own} 1")
    value = fresh()
    write(f"r {name} {value} {now()} 0")
    old = int(values.get(name) or 0)
    time.sleep(choices.random() / 100)
    values.set(name, value)
    write(f"d {value} {now()} {old}")
    left = min(now(), asked + int(ttl * 1e9))
    if left > entered:
        write(f"p {name} {own} {own} {entered} {left} {own} 1 1")
    served += 1
    lock.release()


def work(own_seed):
    choices = random.Random(own_seed)
    client, values = connect(), redis.Redis(port=int(protected))
    while not over.is_set():
        try:
            turn(client, values, choices)
        except RedisError:
            time.sleep(0.05)


workers = [threading.Thread(target=work, args=(int(seed) + at,)) for at in range(int(tasks))]
for worker in workers:
    worker.start()
sys.stdin.readline()
over.set()
for worker in workers:
    worker.join()
print("@@ served", served, flush=True)
