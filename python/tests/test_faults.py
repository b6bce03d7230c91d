"""Tests of locks while their server is killed, stopped, cut off or replaced."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis as driver

from conftest import PATIENCE, Redis, eventually
from leasehold import AsyncClient, Client, Event, LeaseLost, StoreUnavailable

TTL = 9.0
"""A ttl whose third is longer than a server's restart on a busy machine."""


def kinds(told: list[Event]) -> list[str]:
    return [event.kind for event in told]


def test_a_lease_outlives_a_server_that_is_killed_and_comes_back(
    own_redis: Redis, name: str
) -> None:
    told: list[Event] = []
    with Client(own_redis.url, on_event=told.append) as client:
        with client.lock(name, ttl=TTL) as guard:
            own_redis.stop()
            eventually(lambda: "overdue" in kinds(told))
            assert guard.is_held and guard.loss is None
            own_redis.start()
            late = kinds(told).index("overdue")
            eventually(lambda: "renewed" in kinds(told)[late:])
            with Client(own_redis.url) as other:
                assert other.lock(name).try_acquire() is None
            guard.ensure_held()
            # This connects again, if that is still to do: the release is then answered.
            client.lock(f"{name}/other").acquire().release()
        assert client.lock(name).status().is_free
    assert "lost" not in kinds(told)


def test_a_server_that_stays_away_is_a_loss_and_the_client_goes_on_after_it(
    own_redis: Redis, name: str
) -> None:
    reasons: list[str] = []
    with Client(own_redis.url) as client:
        with pytest.raises(LeaseLost), client.lock(name, ttl=1) as guard:
            guard.on_lost(reasons.append)
            own_redis.stop()
            assert guard.wait_lost(PATIENCE) == "expired"
            assert not guard.is_held and guard.validity == 0
        eventually(lambda: reasons == ["expired"])
        own_redis.start()
        with client.lock(name).acquire(timeout=PATIENCE) as again:
            assert again.token > guard.token


def test_a_block_of_a_task_ends_when_its_server_stays_away(own_redis: Redis, name: str) -> None:
    async def main() -> str:
        async with AsyncClient(own_redis.url) as client:
            try:
                async with client.lock(name, ttl=1) as guard:
                    own_redis.stop()
                    await asyncio.sleep(PATIENCE)
            except LeaseLost as error:
                assert error.token == guard.token
                own_redis.start()
                async with client.lock(name).acquire(timeout=PATIENCE) as again:
                    assert again.token > guard.token
                return error.reason
            raise AssertionError("the block went on")

    assert asyncio.run(main()) == "expired"


def test_a_waiter_keeps_its_place_while_the_server_is_away(own_redis: Redis, name: str) -> None:
    order: list[int] = []
    clients = [Client(own_redis.url) for _ in range(4)]

    def wait(number: int) -> int:
        with clients[number].lock(name) as guard:
            order.append(number)
            return guard.token

    with ThreadPoolExecutor(3) as pool:
        guard = clients[0].lock(name).acquire()
        waits = []
        for number in (1, 2, 3):
            waits.append(pool.submit(wait, number))
            eventually(lambda: clients[0].lock(name).status().waiting == len(waits))
        own_redis.stop()
        own_redis.start()
        guard.release()
        tokens = [waiting.result(PATIENCE) for waiting in waits]
    assert order == [1, 2, 3] and [guard.token, *tokens] == sorted({guard.token, *tokens})
    for client in clients:
        client.close()


def test_a_task_waits_across_an_outage(own_redis: Redis, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(own_redis.url) as client, AsyncClient(own_redis.url) as other:
            guard = await client.lock(name).acquire()
            waiting = asyncio.create_task(other.lock(name).acquire())
            while (await client.lock(name).status()).waiting == 0:
                await asyncio.sleep(0.01)
            own_redis.stop()
            own_redis.start()
            await guard.release()
            late = await asyncio.wait_for(waiting, PATIENCE)
            assert late.token > guard.token
            await late.release()

    asyncio.run(main())


def test_connections_that_are_killed_lose_no_update(own_redis: Redis, name: str) -> None:
    count, ended = 0, threading.Event()

    def add() -> None:
        nonlocal count
        for _ in range(500):
            with client.lock(name):
                seen = count
                threading.Event().wait(0)
                count = seen + 1

    with (
        Client(own_redis.url) as client,
        driver.Redis(port=own_redis.port) as r,
        ThreadPoolExecutor(5) as pool,
    ):

        def kill() -> int:
            killed = last = 0
            while not ended.wait(0.02):
                if count < last + 20:
                    continue  # On a slow machine, connections would live for one lock each.
                last = count
                for kind in ("normal", "pubsub"):
                    killed += r.client_kill_filter(_type=kind, skipme=True)
            return killed

        killing = pool.submit(kill)
        try:
            for done in [pool.submit(add) for _ in range(4)]:
                done.result(PATIENCE)
        finally:
            ended.set()
        assert killing.result(PATIENCE) > 0
    assert count == 2000


def test_a_server_that_does_not_answer_is_said_so_and_nothing_stays_behind(
    own_redis: Redis, name: str
) -> None:
    with Client(own_redis.url + "?timeout=200ms") as client:
        client.lock(name).acquire().release()
        with own_redis.paused(), pytest.raises(StoreUnavailable) as caught:
            client.lock(name).try_acquire()
        assert caught.value.is_transient
        eventually(lambda: client.lock(name).status().is_free)
