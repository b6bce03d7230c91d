"""leasehold and redis-py in turns on one server: what a lock costs in Python."""

from __future__ import annotations

import asyncio
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import redis
import redis.asyncio

from leasehold import AsyncClient, Client

TURNS = 9
ALONE = 2000
SECONDS = 1.0
THREADS = 16
TASKS = 64


@contextmanager
def server() -> Iterator[int]:
    directory = tempfile.mkdtemp()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""]
    process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    try:
        with socket.socket() as asked:
            while asked.connect_ex(("127.0.0.1", port)) != 0:
                time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def turns(ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float, float]:
    """The median of each, and the median of the ratios of neighbouring turns."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(TURNS)]
    ratio = statistics.median(one / other for one, other in pairs)
    return statistics.median(one for one, _ in pairs), statistics.median(b for _, b in pairs), ratio


def alone(lock: Any) -> Callable[[], float]:
    """Microseconds for a pair of acquire and release."""

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(ALONE):
            with lock:
                pass
        return (time.perf_counter() - begin) / ALONE * 1e6

    return run


def alone_in_loop(loop: asyncio.AbstractEventLoop, make: Callable[[], Any]) -> Callable[[], float]:
    async def pairs() -> float:
        lock = make()
        begin = time.perf_counter()
        for _ in range(ALONE):
            async with lock:
                pass
        return (time.perf_counter() - begin) / ALONE * 1e6

    return lambda: loop.run_until_complete(pairs())


def many_threads(
    make: Callable[[int], Any], waits: list[float] | None = None
) -> Callable[[], float]:
    """Pairs per second of all threads, and the longest wait of each turn in seconds."""

    def run() -> float:
        end, counts, longest = time.perf_counter() + SECONDS, [0] * THREADS, [0.0] * THREADS

        def work(number: int) -> None:
            lock = make(number)
            while (begin := time.perf_counter()) < end:
                with lock:
                    longest[number] = max(longest[number], time.perf_counter() - begin)
                    counts[number] += 1

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        if waits is not None:
            waits.append(max(longest))
        return sum(counts) / SECONDS

    return run


def many_tasks(loop: asyncio.AbstractEventLoop, make: Callable[[int], Any]) -> Callable[[], float]:
    async def run() -> float:
        end, count = time.perf_counter() + SECONDS, 0

        async def work(number: int) -> None:
            nonlocal count
            lock = make(number)
            while time.perf_counter() < end:
                async with lock:
                    count += 1

        await asyncio.gather(*(work(number) for number in range(TASKS)))
        return count / SECONDS

    return lambda: loop.run_until_complete(run())


def import_ms(what: str) -> float:
    def once() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {what}"], check=True)
        return (time.perf_counter() - begin) * 1e3

    return statistics.median(once() for _ in range(TURNS))


def say(what: str, goal: str, found: tuple[float, float, float]) -> None:
    print(f"| {what} | {found[0]:.0f} | {found[1]:.0f} | {found[2]:.2f} | {goal} |", flush=True)


def main() -> None:
    print("| | leasehold | redis-py | ratio | goal |\n|---|---|---|---|---|")
    with server() as port:
        client, theirs = Client(f"redis://127.0.0.1:{port}/0"), redis.Redis(port=port)

        def old(name: str) -> Any:
            return theirs.lock(name, timeout=10)

        say("a pair, µs", "≤ 0.55", turns(alone(client.lock("a")), alone(old("b"))))
        own = turns(
            many_threads(lambda number: client.lock(f"c{number}")),
            many_threads(lambda number: old(f"d{number}")),
        )
        say("16 threads, own names, pairs/s", "≥ 5", own)
        waits: tuple[list[float], list[float]] = ([], [])
        one = turns(
            many_threads(lambda _: client.lock("e"), waits[0]),
            many_threads(lambda _: old("f"), waits[1]),
        )
        say("16 threads, one name, pairs/s", "≥ 20", one)
        longest = [statistics.median(found) * 1e3 for found in waits]
        say("16 threads, one name, longest wait, ms", "≤ 0.1", (*longest, longest[0] / longest[1]))

        loop = asyncio.new_event_loop()
        tasks, others = AsyncClient(f"redis://127.0.0.1:{port}/0"), redis.asyncio.Redis(port=port)

        def late(name: str) -> Any:
            return others.lock(name, timeout=10)

        pair = turns(
            alone_in_loop(loop, lambda: tasks.lock("g")), alone_in_loop(loop, lambda: late("h"))
        )
        say("asyncio, a pair, µs", "≤ 0.8", pair)
        own = turns(
            many_tasks(loop, lambda number: tasks.lock(f"i{number}")),
            many_tasks(loop, lambda number: late(f"j{number}")),
        )
        say("64 tasks, own names, pairs/s", "≥ 7", own)
        one = turns(
            many_tasks(loop, lambda _: tasks.lock("k")), many_tasks(loop, lambda _: late("l"))
        )
        say("64 tasks, one name, pairs/s", "≥ 20", one)
        closing: list[Awaitable[Any]] = [tasks.close(), others.aclose()]
        for it in closing:
            loop.run_until_complete(it)
        loop.close()

        with client.lock("m") as guard:
            begin = time.perf_counter()
            for _ in range(100_000):
                _ = guard.is_held
            took = (time.perf_counter() - begin) * 10
            print(f"| `guard.is_held`, µs | {took:.2f} | | | ≤ 1 |")
        client.close()
        theirs.close()
    ours, like = import_ms("leasehold"), import_ms("json, asyncio")
    say("import, ms, beside `json, asyncio`", "≤ 1", (ours, like, ours / like))


if __name__ == "__main__":
    main()
