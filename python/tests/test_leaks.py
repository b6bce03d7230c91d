"""What a client and its server need does not grow, however often something is done."""

from __future__ import annotations

import pytest

from conftest import Program, Redis

MEASURED = """
import asyncio, contextlib, gc, logging, os, signal, sys, threading, time, warnings
from concurrent.futures import ThreadPoolExecutor
from leasehold import *
from redis import Redis
url, times = sys.argv[1], int(sys.argv[2])
server = Redis.from_url(url)
logging.getLogger("leasehold").addHandler(logging.NullHandler())

def measure():
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    descriptors, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
    info, keys = server.info(), server.dbsize()
    of_server = info["used_memory"], info["connected_clients"], keys
    return resident, sys.getallocatedblocks(), descriptors, threads, *of_server

def compare(work):
    # Caches reach their full size after some rounds.
    work(times // 5)
    first = measure()
    work(times)
    # Releases in the background end a little later.
    end = time.monotonic() + 30
    while not is_flat(grown := [now - before for now, before in zip(measure(), first)]):
        assert time.monotonic() < end, grown
        time.sleep(0.05)

def compare_tasks(work, *clients):
    loop = asyncio.new_event_loop()
    compare(lambda count: loop.run_until_complete(work(count)))
    for client in clients:
        loop.run_until_complete(client.close())
    loop.close()

def is_flat(grown):
    resident, blocks, descriptors, threads, of_server, clients, keys = grown
    # An allocator keeps some pages, and a client some connections; a leak grows each time.
    is_small = resident < (2 << 20) + times * 64 and blocks < 1000 + times // 50
    is_small = is_small and descriptors < 16 and threads < 4
    return is_small and of_server < (2 << 20) and clients < 16 and keys < 32
"""

WORK = {
    "threads_that_acquire_and_release": """
client = Client(url)
def pairs(number, count):
    lock = client.lock(f"leak/{number % 2}")
    for _ in range(count):
        with lock:
            pass
def work(count):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(pairs, range(4), [count // 4] * 4))
compare(work)
""",
    "threads_that_come_and_go": """
client = Client(url)
def once():
    with client.rlock("leak"), client.rlock("leak"):
        pass
def work(count):
    for _ in range(count // 10):
        thread = threading.Thread(target=once)
        thread.start()
        thread.join()
compare(work)
""",
    "names_that_are_never_used_again": """
client = Client(url)
numbers = iter(range(10 ** 9))
def work(count):
    for _ in range(count):
        with client.lock(f"leak/{next(numbers)}", ttl=5) as guard:
            guard.on_lost(print)
compare(work)
""",
    "tries_that_are_busy": """
client, other = Client(url), Client(url)
def work(count):
    with other.lock("leak"):
        for _ in range(count // 2):
            assert client.lock("leak").try_acquire() is None
        for _ in range(count // 200):
            with contextlib.suppress(LockTimeout):
                client.lock("leak").acquire(timeout=0.001)
compare(work)
""",
    "guards_that_are_forgotten": """
warnings.simplefilter("ignore", ResourceWarning)
client = Client(url)
def work(count):
    for _ in range(count):
        client.lock("leak").acquire()
compare(work)
""",
    "clients_that_are_used_and_closed": """
def work(count):
    for _ in range(count // 50):
        with Client(url, on_event=lambda event: None) as client, client.lock("leak"):
            pass
compare(work)
""",
    "connections_that_are_cut": """
client = Client(url)
def pairs(number, count):
    for at in range(count // 8):
        if at % 64 == number:
            server.client_kill_filter(_type="normal", skipme=True)
            server.client_kill_filter(_type="pubsub")
        # What was under way is told as an error.
        with contextlib.suppress(LeaseLost, StoreError), client.lock(f"leak/{number % 2}"):
            pass
def work(count):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(pairs, range(4), [count // 4] * 4))
compare(work)
""",
    "processes_that_are_killed": """
warnings.simplefilter("ignore", DeprecationWarning)
numbers = iter(range(10 ** 9))
def work(count):
    for _ in range(count // 80):
        (reader, writer), name = os.pipe(), f"leak/{next(numbers)}"
        child = os.fork()
        if child == 0:
            guard = Client(url).lock(name, ttl=1).acquire()
            os.write(writer, b"held")
            time.sleep(600)
        assert os.read(reader, 4) == b"held"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
compare(work)
""",
    "tasks_that_acquire_and_release": """
client = AsyncClient(url)
async def pairs(number, count):
    lock = client.lock(f"leak/{number % 8}")
    for _ in range(count):
        async with lock:
            pass
async def all_pairs(count):
    await asyncio.gather(*(pairs(number, count // 16) for number in range(16)))
compare_tasks(all_pairs, client)
""",
    "tasks_that_are_cancelled": """
client, other = AsyncClient(url), AsyncClient(url)
async def use(turns):
    async with client.lock("leak"):
        for _ in range(turns):
            await asyncio.sleep(0)
async def cancel(count):
    for number in range(count // 16):
        tasks = [asyncio.create_task(use(number % 5)) for _ in range(8)]
        guard = await other.lock("leak").try_acquire() if number % 2 else None
        for _ in range(number % 7):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if guard is not None:
            await guard.release()
    async with client.lock("leak").acquire(timeout=60):
        pass
compare_tasks(cancel, client, other)
""",
    "loops_that_are_closed": """
client = AsyncClient(url)
async def once():
    async with client.lock("leak"):
        pass
def work(count):
    for _ in range(count // 50):
        asyncio.run(once())
compare(work)
asyncio.run(client.close())
""",
    "forks": """
warnings.simplefilter("ignore", DeprecationWarning)
client = Client(url)
lock = client.lock("leak")
def work(count):
    for _ in range(count // 200):
        lock.acquire().release()
        child = os.fork()
        if child == 0:
            lock.acquire().release()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
compare(work)
""",
}


@pytest.mark.parametrize("kind", WORK)
def test_nothing_grows_by(
    kind: str, redis: Redis, program: Program, request: pytest.FixtureRequest
) -> None:
    program(MEASURED + WORK[kind], redis.url, str(request.config.getoption("--pairs")))
