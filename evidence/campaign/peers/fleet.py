"""A member of the fleet in Python: README.md says how it is called."""

import asyncio
import logging
import os
import random
import sys
import threading
import time

import redis

from leasehold import AsyncClient, Client
from leasehold.errors import LeaseholdError

url, protected, log, number, seed, tasks, ttl_ms, names, capacity = sys.argv[1:]
number, tasks, ttl = int(number), int(tasks), int(ttl_ms) / 1000

READ = """
local token = redis.call('HGET', KEYS[1], 'token')
if token and token > ARGV[1] then return nil end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return redis.call('HGET', KEYS[1], 'value') or '0'
"""
WRITE = """
if redis.call('HGET', KEYS[1], 'token') > ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1
"""


# The warnings of the library are part of the attack.
logging.disable(logging.CRITICAL)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def fail(failure):
    sys.excepthook(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)  # the other threads would go on


threading.excepthook = fail
lines = open(log, "a", buffering=1)
values = redis.Redis(port=int(protected))
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


class Watch:
    """What a guard has promised: that it is held from one answer to the next."""

    def __init__(self, guard):
        self.guard, self.number = guard, fresh()
        self.since = self.known = self.until = 0

    def ask(self):
        before = now()
        validity, is_held = self.guard.validity, self.guard.is_held
        after = now()
        if validity == 0 and is_held:
            write(f"v I5 {self.guard.name} is held without validity")
        if self.since:
            self.known = max(self.known, min(self.until, before) if is_held else 0)
        if not is_held or validity == 0 or (self.since and self.until < after):
            self.end()
        if is_held and validity > 0:
            self.since = self.since or after
            self.known = max(self.known, self.since)
            self.until = before + int(validity * 1e9)
        return is_held

    def end(self):
        if self.known > self.since:
            name, token = self.guard.name, self.guard.token
            span = f"{self.since} {self.known} {token} {capacity} {capacity}"
            write(f"p {name} {self.number} {self.number} {span}")
        self.since = self.known = 0


def update(guard, asked, choices):
    """Yields how long to wait, while it is held and a value is read and written."""
    global served
    watch, name, token = Watch(guard), guard.name, guard.token
    write(f"g {name} {watch.number} {asked} {now()} {token} {watch.number} 1")
    value = fresh()
    write(f"r {name} {value} {now()} {token}")
    old = values.eval(READ, 1, name, f"{token:020}")
    end = now() + choices.randrange(10_000_000)
    try:
        while watch.ask() and now() < end:
            yield 0.002
        if old is not None and values.eval(WRITE, 1, name, f"{token:020}", value):
            write(f"d {value} {now()} {int(old)}")
        else:
            write(f"n {value}")
        watch.ask()
    finally:
        watch.end()
    write("e python")
    with writing:
        served += 1


def drawn(client, choices):
    return client.lock(f"campaign/r{choices.randrange(int(names))}", ttl=ttl)


def work(client, own_seed):
    choices = random.Random(own_seed)
    while not over.is_set():
        asked = now()
        try:
            with drawn(client, choices).acquire(timeout=3) as guard:
                for pause in update(guard, asked, choices):
                    time.sleep(pause)
        except LeaseholdError as error:
            write(f"e python-{type(error).__name__}")
            time.sleep(0.05)


async def play(client, own_seed):
    choices = random.Random(own_seed)
    while not over.is_set():
        asked = now()
        try:
            async with drawn(client, choices).acquire(timeout=3) as guard:
                for pause in update(guard, asked, choices):
                    await asyncio.sleep(pause)
        except LeaseholdError as error:
            write(f"e python-{type(error).__name__}")
            await asyncio.sleep(0.05)


async def play_all():
    async with AsyncClient(url) as client:
        await asyncio.gather(*(play(client, int(seed) - at) for at in range(1, tasks // 2 + 1)))


def run_in_threads():
    with Client(url) as client:
        workers = [
            threading.Thread(target=work, args=(client, int(seed) + at))
            for at in range(tasks - tasks // 2)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def run(play_to_the_end):
    try:
        play_to_the_end()
    except LeaseholdError as error:
        # The store did not answer when the client was closed.
        write(f"e python-{type(error).__name__}")


both = [
    threading.Thread(target=run, args=(run_in_threads,)),
    threading.Thread(target=run, args=(lambda: asyncio.run(play_all()),)),
]
for one in both:
    one.start()
sys.stdin.readline()
over.set()
for one in both:
    one.join()
print("@@ served", served, flush=True)
