"""Tests of event loops other than asyncio's own, and of greenlets."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import uvloop

from conftest import PATIENCE, Program, Redis, eventually
from leasehold import AsyncClient, AsyncLock, Client, LeaseLost


def test_uvloop_is_served(redis: Redis, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(redis.url) as client:
            async with client.lock(name):
                waiting = asyncio.create_task(client.lock(name).acquire(timeout=0.01))
                with pytest.raises(TimeoutError):
                    await waiting
            with pytest.raises(LeaseLost):
                async with client.lock(name) as guard:
                    await client.admin.revoke(name, guard.token, now=True)
                    await asyncio.sleep(PATIENCE)

    uvloop.run(main())


def test_a_cancelled_scope_of_anyio_gives_back(redis: Redis, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(redis.url) as client:
            for _ in range(20):
                with anyio.move_on_after(0.005):
                    async with client.lock(name):
                        await anyio.sleep(PATIENCE)
            async with client.lock(name).acquire(timeout=PATIENCE):
                pass

    anyio.run(main)


def test_greenlets_are_told_of_losses_and_run_while_others_wait(
    redis: Redis, program: Program, name: str
) -> None:
    program(
        """
from gevent import monkey
monkey.patch_all()
import gevent, logging, sys
logging.getLogger("leasehold").addHandler(logging.NullHandler())
from leasehold import Client
client = Client(sys.argv[1])
guard = client.lock(sys.argv[2]).acquire()
told, ticks = [], []
guard.on_lost(told.append)
waiting = gevent.spawn(lambda: client.lock(sys.argv[2]).acquire().release())
def tick():
    while not waiting.ready():
        ticks.append(1)
        gevent.sleep(0.01)
ticking = gevent.spawn(tick)
gevent.sleep(0.1)
assert ticks and not waiting.ready()
client.admin.revoke(sys.argv[2], guard.token, now=True)
with gevent.Timeout(60):
    gevent.joinall([waiting, ticking])
    while not told:
        gevent.sleep(0.01)
assert told == ["revoked"] and waiting.successful()
""",
        redis.url,
        name,
    )
    with Client(redis.url) as client:
        assert client.lock(name).status().is_free


async def holds_in_a_block(lock: AsyncLock) -> None:
    async with lock:
        await asyncio.Event().wait()


async def holds_in_a_block_of_an_acquire(lock: AsyncLock) -> None:
    async with lock.acquire():
        await asyncio.Event().wait()


async def holds_by_hand(lock: AsyncLock) -> None:
    guard = await lock.acquire()
    await guard.lost()


async def releases(lock: AsyncLock) -> None:
    guard = await lock.acquire()
    asyncio.get_running_loop().stop()
    await guard.release()
    await asyncio.Event().wait()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize(
    "work", [holds_in_a_block, holds_in_a_block_of_an_acquire, holds_by_hand, releases]
)
@pytest.mark.parametrize("sees", ["a_wait", "no_grant", "no_wakeup", "a_grant"])
def test_a_closed_loop_lets_go_of_what_its_tasks_hold_and_wait_for(
    redis: Redis,
    name: str,
    work: Callable[[AsyncLock], Coroutine[Any, Any, None]],
    sees: str,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    client, permits = AsyncClient(redis.url), Client(redis.url).semaphore(name, 3)
    lock, loop, guard = client.semaphore(name, 3), new_loop(), permits.permits(3).acquire()
    loop.run_until_complete(client.connect())
    tasks = [loop.create_task(work(lock)) for _ in range(3)]
    loop.call_soon(loop.stop)
    loop.run_forever()
    eventually(lambda: permits.status().waiting == 3)
    if sees != "a_wait":
        guard.release()
        eventually(lambda: len(permits.status().holders) == 3)
    if sees in ("no_wakeup", "a_grant"):
        loop.call_later(0.1 if sees == "a_grant" else 0, loop.stop)
        loop.run_forever()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop.close()
        left = weakref.ref(loop)
        is_by_hand = work in (holds_by_hand, releases)
        if is_by_hand:
            tasks.clear()
            gc.collect()
        guard.release()
        permits.permits(3).acquire(timeout=PATIENCE).release()
        del loop, tasks
        gc.collect()
    assert left() is None
    texts = [str(it.message) for it in said if it.category is ResourceWarning]
    assert len(texts) <= (3 if is_by_hand else 1), texts


def test_a_block_of_a_closed_loop_that_is_collected_ends_no_other(redis: Redis, name: str) -> None:
    lock, other = AsyncClient(redis.url).lock(name), Client(redis.url).lock(name)
    loop = asyncio.new_event_loop()

    async def holds() -> None:
        async with lock:
            loop.stop()
            await asyncio.Event().wait()

    tasks = [loop.create_task(holds())]
    loop.run_forever()
    with pytest.warns(ResourceWarning, match="closed in a block"):
        loop.close()

    async def again() -> None:
        async with lock as guard:
            tasks.clear()
            gc.collect()
            assert guard.is_held and other.try_acquire() is None

    asyncio.run(again())
    other.acquire(timeout=PATIENCE).release()


def test_a_task_that_nobody_can_wake_gives_back_when_collected(redis: Redis, name: str) -> None:
    async def holds(lock: AsyncLock, inside: asyncio.Event) -> None:
        async with lock:
            inside.set()
            await asyncio.Event().wait()

    async def main() -> None:
        lock, inside = AsyncClient(redis.url).lock(name), asyncio.Event()
        tasks = [asyncio.create_task(holds(lock, inside))]
        await inside.wait()
        tasks.clear()
        gc.collect()
        async with lock.acquire(timeout=PATIENCE):
            pass

    asyncio.run(main())
