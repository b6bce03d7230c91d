"""Tests of event loops other than asyncio's own, and of greenlets."""

from __future__ import annotations

import asyncio

import anyio
import pytest
import uvloop

from conftest import PATIENCE, Program, Redis
from leasehold import AsyncClient, Client, LeaseLost


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

    loop = uvloop.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


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
