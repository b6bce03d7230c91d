"""A program that shares a lock with leasehold, through redis-py's own Lock.

redis_py.py PORT NAME: does what each line on stdin says, and answers on stdout.
  acquire TTL_MS       waits for the lock       -> acquired
  release              lets go                  -> released, or refused if it is not its own
  add COUNTER ROUNDS   adds 1 in each round, reading and writing under the lock -> added
"""

import sys

import redis
from redis.exceptions import LockNotOwnedError

# A lock that is held for as long as a busy machine may take for a few requests.
LONG_SECONDS = 60


def say(word):
    print("@@", word, flush=True)


def add(client, name, counter, rounds):
    for _ in range(rounds):
        with client.lock(name, timeout=LONG_SECONDS):
            inside = client.incr(counter + ":inside")
            assert inside == 1, f"{inside} hold the lock"
            client.set(counter, int(client.get(counter) or 0) + 1)
            client.decr(counter + ":inside")


def main():
    port, name = sys.argv[1:]
    client = redis.Redis(port=int(port))
    lock = None
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "acquire":
            lock = client.lock(name, timeout=int(arguments[0]) / 1000)
            lock.acquire()
            say("acquired")
        elif command == "release":
            try:
                lock.release()
                say("released")
            except LockNotOwnedError:
                say("refused")
        elif command == "add":
            add(client, name, arguments[0], int(arguments[1]))
            say("added")


main()
