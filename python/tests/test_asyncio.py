"""Tests of the locks and guards for tasks."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conftest import PATIENCE, Program, Redis
from leasehold import AsyncClient, AsyncGuard, ClientClosed, LeaseLost, LockTimeout, Memory

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client(store: str | Memory) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(store) as client:
        yield client


async def eventually(what: Callable[[], Awaitable[object]]) -> None:
    while not await what():
        await asyncio.sleep(0.01)


async def test_one_holds_at_a_time_by_each_way_to_ask(client: AsyncClient, name: str) -> None:
    lock = client.lock(name)
    async with lock as first:
        assert first.is_held and await client.lock(name).try_acquire() is None
    async with lock.acquire(timeout=PATIENCE) as second:
        assert second.token > first.token
    third = await lock.acquire()
    assert third.token > second.token
    with pytest.raises(LockTimeout):
        await lock.acquire(timeout=0.01)
    assert 0 < await third.renew() <= 30
    await third.release()
    await third.release()
    with pytest.raises(LeaseLost):
        await third.renew()
    assert (await lock.status()).is_free


async def test_what_is_known_at_once_does_not_wait_for_the_loop(name: str) -> None:
    async with AsyncClient(Memory()) as client, client.lock(name):
        ran: list[bool] = []
        asyncio.get_running_loop().call_soon(ran.append, True)
        assert await client.lock(name).try_acquire() is None and not ran


async def test_a_block_is_cancelled_when_its_lease_is_lost(client: AsyncClient, name: str) -> None:
    reached = False
    with pytest.raises(LeaseLost) as caught:
        async with client.lock(name) as guard:
            assert await client.admin.revoke(name, guard.token, now=True)
            await asyncio.sleep(PATIENCE)
            reached = True
    assert caught.value.reason == "revoked" and not reached
    await guard.release()
    # The task continues as if nothing had happened.
    await asyncio.sleep(0)
    if sys.version_info >= (3, 11):
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0


async def test_a_block_over_several_names_is_cancelled_too(client: AsyncClient, name: str) -> None:
    names = [name + "/a", name + "/b"]
    with pytest.raises(LeaseLost):
        async with client.multi(names) as guard:
            await client.admin.revoke(names[1], guard.tokens[names[1]], now=True)
            await asyncio.sleep(PATIENCE)


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "after"])
async def test_a_block_on_a_lease_that_was_entered_again_is_cancelled_too(
    redis: Redis, name: str, inside: bool
) -> None:
    client = AsyncClient(redis.url)
    with pytest.raises(LeaseLost):
        async with client.rlock(name) as outer:
            async with client.rlock(name):
                if inside:
                    await client.admin.revoke(name, outer.token, now=True)
                    await asyncio.sleep(PATIENCE)
            await client.admin.revoke(name, outer.token, now=True)
            await asyncio.sleep(PATIENCE)


async def test_a_cancellation_from_outside_wins_over_a_loss(client: AsyncClient, name: str) -> None:
    inside = asyncio.Event()
    guards: list[AsyncGuard] = []

    async def hold() -> None:
        async with client.lock(name) as guard:
            guards.append(guard)
            inside.set()
            await asyncio.sleep(PATIENCE)

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert guards[0].loss == "released"
    assert (await client.lock(name).status()).is_free


async def test_a_block_that_fails_by_itself_keeps_its_error(client: AsyncClient, name: str) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with client.lock(name) as guard:
            try:
                await client.admin.revoke(name, guard.token, now=True)
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                raise ZeroDivisionError from None
    assert "revoked" in getattr(caught.value, "__notes__", ["revoked"])[0]


async def test_who_waits_by_hand_is_told_of_the_end(client: AsyncClient, name: str) -> None:
    guard = await client.lock(name).acquire()
    watching = asyncio.create_task(guard.lost())
    await client.admin.revoke(name, guard.token, now=True)
    assert await watching == "revoked"
    with pytest.raises(LeaseLost):
        await guard.release()
    guard = await client.lock(name).acquire()
    watching = asyncio.create_task(guard.lost())
    await asyncio.sleep(0)
    await guard.release()
    assert await watching is None


async def test_a_cancelled_wait_leaves_nothing_at_any_point(client: AsyncClient, name: str) -> None:
    lock = client.lock(name)
    for turns in range(60):
        task = asyncio.ensure_future(lock.acquire())
        for _ in range(turns % 12):
            await asyncio.sleep(0 if turns % 2 else 0.0005)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).release()
    async with lock.acquire(timeout=PATIENCE):
        pass
    await eventually(lambda: _is_idle(client, name))


async def _is_idle(client: AsyncClient, name: str) -> bool:
    status = await client.lock(name).status()
    return status.is_free and status.waiting == 0


async def test_a_release_that_is_cancelled_goes_on(client: AsyncClient, name: str) -> None:
    for _ in range(10):
        guard = await client.lock(name).acquire(timeout=PATIENCE)
        release = asyncio.create_task(guard.release())
        await asyncio.sleep(0)
        release.cancel()
        await asyncio.gather(release, return_exceptions=True)
    await eventually(lambda: _is_idle(client, name))


async def test_a_task_reenters_an_rlock_and_no_other_does(client: AsyncClient, name: str) -> None:
    async with client.rlock(name) as outer, client.rlock(name) as inner:
        assert inner.token == outer.token
        other = asyncio.create_task(client.rlock(name).try_acquire())
        assert await other is None
    assert (await client.lock(name).status()).is_free


async def test_a_generator_ends_its_own_guard_in_any_task(client: AsyncClient, name: str) -> None:
    permits = client.semaphore(name, 3)

    async def slot() -> AsyncIterator[AsyncGuard]:
        async with permits as guard:
            yield guard

    one, two = slot(), slot()
    first, second = await asyncio.gather(anext(one), anext(two))
    async with permits as own:
        await one.aclose()
        assert first.loss == "released" and second.is_held and own.is_held
        await two.aclose()
        assert second.loss == "released" and own.is_held


async def test_modes_elections_jobs_and_decorators_are_as_those_of_threads(
    client: AsyncClient, name: str
) -> None:
    async with client.rwlock(name).read() as reader:
        assert reader.mode == "shared"
    async with client.semaphore(name + "/s", 2).permits(2):
        assert await client.semaphore(name + "/s", 2).try_acquire() is None
    election = client.election(name + "/e")
    async with await election.campaign("here") as leadership:
        leader = await election.leader()
        assert leader is not None and leader.token == leadership.token
        await leadership.proclaim("there")
        async for found in election.observe():
            if found is not None and found.value == "there":
                break
    lease = (await client.lock(name).acquire()).into_lease()
    await (await client.adopt(lease)).release()

    @client.job(name + "/j", once_per=60)
    async def nightly() -> int:
        return 5

    assert (await nightly(), await nightly()) == (5, None)

    @client.synchronized(name + "/{invoice}", skip=True)
    async def charge(invoice: int) -> object:
        return await charge(invoice) or "charged"

    assert await charge(4) == "charged"
    assert await client.admin.names("no such") == []


async def test_a_closed_client_ends_waits_and_blocks(client: AsyncClient, name: str) -> None:
    guard = await client.lock(name).acquire()
    waiting = asyncio.ensure_future(client.lock(name).acquire())
    await asyncio.sleep(0.05)
    await client.close()
    with pytest.raises(ClientClosed):
        await waiting
    assert guard.loss == "closed"
    with pytest.raises(ClientClosed):
        await client.lock(name).acquire()


def test_a_process_that_could_start_no_thread_for_tasks_tries_again(program: Program) -> None:
    ended = program(
        """
import asyncio, contextlib, os, pytest, resource, sys, threading
from leasehold import AsyncClient, Memory, StoreError
client = AsyncClient(Memory())
async def pair():
    async with client.lock("a"):
        pass
asyncio.run(asyncio.sleep(0))
if os.getuid() == 0:
    os.setuid(65534)  # The limit does not hold for root.
limits = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (0, limits[1]))
with contextlib.suppress(RuntimeError):
    threading.Thread(target=int).start()
    print("unlimited")
    sys.exit()
with pytest.raises(StoreError, match="no thread for asyncio"):
    asyncio.run(pair())
resource.setrlimit(resource.RLIMIT_NPROC, limits)
asyncio.run(asyncio.wait_for(pair(), 30))
"""
    )
    if ended.stdout:
        pytest.skip("this system does not limit the number of threads")


def test_a_client_serves_loops_one_after_another_and_at_once(redis: Redis, name: str) -> None:
    client = AsyncClient(redis.url)

    async def pairs() -> None:
        for _ in range(20):
            async with client.lock(name):
                await asyncio.sleep(0)

    asyncio.run(pairs())
    asyncio.run(pairs())
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lambda: asyncio.run(pairs())) for _ in range(4)]:
            done.result(PATIENCE)
    asyncio.run(client.close())


def test_without_a_loop_it_says_what_to_use() -> None:
    verb = AsyncClient(Memory()).lock("a").status()
    with pytest.raises(RuntimeError, match=r"trio.*use Client"):
        verb.send(None)  # type: ignore[attr-defined]


def test_bad_input_is_refused_where_it_is_written() -> None:
    client = AsyncClient(Memory())
    for entered in (client.lock("a"), client, client.lock("a").acquire()):
        with pytest.raises(TypeError, match="by `async with`"), entered:  # type: ignore[attr-defined]
            pass
    with pytest.raises(TypeError, match="is not async"):
        client.synchronized("a")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout is seconds"):
        asyncio.run(client.lock("a")._take("5"))  # type: ignore[arg-type]


def test_an_acquire_that_is_never_awaited_warns() -> None:
    acquiring: Any = AsyncClient(Memory()).lock("a").acquire()
    with pytest.warns(RuntimeWarning, match="never awaited"):
        del acquiring


def test_clients_and_locks_pickle(redis: Redis, name: str) -> None:
    client = AsyncClient(redis.url)
    lock = pickle.loads(pickle.dumps(client.rwlock(name).read()))

    async def main() -> None:
        async with lock as guard:
            assert guard.mode == "shared"
        await lock._client.close()

    asyncio.run(main())


def test_a_client_works_in_a_child_of_a_process_whose_loop_has_used_it(
    redis: Redis, program: Program, name: str
) -> None:
    program(
        """
import asyncio, os, sys, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)
from leasehold import AsyncClient
client = AsyncClient(sys.argv[1])
async def pair():
    async with client.lock(sys.argv[2]) as guard:
        return guard.holder
first = asyncio.run(pair())
pid = os.fork()
holder = asyncio.run(pair())
assert (holder.split("-")[0] == first.split("-")[0]) == (pid != 0)
if pid:
    assert os.waitpid(pid, 0)[1] == 0
""",
        redis.url,
        name,
    )
