"""Tests of the locks and guards for threads, on each store."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from datetime import timedelta

import psycopg
import pytest

from conftest import PATIENCE, Postgres, Program, Redis, eventually, forward, lose
from leasehold import (
    AlreadyDone,
    Client,
    ClientClosed,
    Event,
    Guard,
    InvalidInput,
    Lease,
    LeaseLost,
    LockTimeout,
    Memory,
    NotAdopted,
)


def test_one_holds_at_a_time_and_each_grant_has_a_higher_token(client: Client, name: str) -> None:
    with client.lock(name) as first:
        assert first.is_held and first.loss is None and 0 < first.validity <= 30
        assert (first.name, first.names, first.mode) == (name, (name,), "exclusive")
        assert first.tokens == {name: first.token}
        assert client.lock(name).try_acquire() is None
    with client.lock(name) as second:
        assert second.token > first.token
    assert not first.is_held and first.loss == "released" and first.validity == 0


def test_an_open_transaction_that_passed_the_fence_is_named_as_what_keeps_a_free_name(
    postgres: Postgres, name: str
) -> None:
    with Client(postgres.url) as client, psycopg.connect(postgres.url) as shop:
        lock = client.lock(name)
        with lock as guard:
            shop.execute("SELECT leasehold.fence(%s, %s)", [name, guard.token])
        status = lock.status()
        assert status.is_free
        assert any(f"process {shop.info.backend_pid}" in who for who in status.held_back)
        shop.commit()
        assert lock.status().held_back == ()


def test_who_waits_is_woken_by_a_release(client: Client, store: str | Memory, name: str) -> None:
    guard = client.lock(name).acquire()
    with Client(store) as another, ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: another.lock(name).acquire().release())
        eventually(lambda: client.lock(name).status().waiting == 1 or waiting.done())
        assert not waiting.done()
        guard.release()
        waiting.result(PATIENCE)


def test_a_limit_says_who_has_it(client: Client, name: str) -> None:
    with client.lock(name, label="nightly"):
        eventually(lambda: client.lock(name).status().holders[0].label)
        with pytest.raises(LockTimeout, match="nightly") as caught:
            client.lock(name).acquire(timeout=timedelta(milliseconds=10))
        error = caught.value
        assert isinstance(error, TimeoutError) and error.is_transient and error.name == name
        assert error.waited >= 0.01 and error.own
        assert error.holder and error.holder.label == "nightly"
        with pytest.raises(LockTimeout):
            client.lock(name).acquire(timeout=0)


def test_each_thread_lets_go_of_its_own_guard_of_one_lock(client: Client, name: str) -> None:
    permits, inside = client.semaphore(name, 2), threading.Barrier(2)

    def enter() -> bool:
        with permits as guard:
            inside.wait(PATIENCE)
            held = guard.is_held
            inside.wait(PATIENCE)
        return held and guard.loss == "released"

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda _: enter(), range(2)))
    assert permits.status().is_free


def test_a_block_that_ends_in_another_thread_ends_the_one_guard(client: Client, name: str) -> None:
    lock = client.lock(name)
    with ThreadPoolExecutor(1) as pool:
        guard = pool.submit(lock.__enter__).result(PATIENCE)
    lock.__exit__(None, None, None)
    assert guard.loss == "released"


def test_a_generator_ends_its_own_guard_in_any_thread(client: Client, name: str) -> None:
    permits = client.semaphore(name, 3)

    def slot() -> Iterator[Guard]:
        with permits as guard:
            yield guard

    one, two = slot(), slot()
    with ThreadPoolExecutor(1) as pool, permits as own:
        first, second = (pool.submit(next, it).result(PATIENCE) for it in (one, two))
        one.close()
        assert first.loss == "released" and second.is_held and own.is_held
        two.close()
        assert second.loss == "released" and own.is_held


def test_with_several_guards_elsewhere_nothing_is_let_go(client: Client, name: str) -> None:
    permits = client.semaphore(name, 2)
    with ThreadPoolExecutor(1) as pool:
        guards = [pool.submit(permits.__enter__).result(PATIENCE) for _ in range(2)]
        with pytest.raises(RuntimeError, match=r"with lock\.acquire\(\) as guard"):
            permits.__exit__(None, None, None)
        assert all(guard.is_held for guard in guards)
        for _ in guards:
            pool.submit(permits.__exit__, None, None, None).result(PATIENCE)


def test_a_second_release_is_nothing_and_all_verbs_say_released(client: Client, name: str) -> None:
    guard = client.lock(name).acquire()
    guard.release()
    guard.release()
    for verb in (guard.renew, guard.reenter, guard.ensure_held, guard.into_lease):
        with pytest.raises(LeaseLost) as caught:
            verb()
        assert caught.value.reason == "released"


def test_a_lost_lease_is_told_once_and_at_the_end_of_the_block(client: Client, name: str) -> None:
    with pytest.raises(LeaseLost) as caught, client.lock(name) as guard:
        assert lose(client, guard) == "revoked"
        assert not guard.is_held and guard.loss == "revoked"
        with pytest.raises(LeaseLost):
            guard.ensure_held()
    assert (caught.value.reason, caught.value.token) == ("revoked", guard.token)
    guard.release()


def test_a_block_that_fails_by_itself_keeps_its_error_and_notes_the_loss(
    client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZeroDivisionError) as caught, client.lock(name) as guard:
        lose(client, guard)
        raise ZeroDivisionError
    notes = getattr(caught.value, "__notes__", ["revoked"])
    assert "revoked" in notes[0]
    assert any("its release failed" in record.message for record in caplog.records)


def test_a_loss_is_called_back_once_in_the_registered_context(client: Client, name: str) -> None:
    request: ContextVar[str] = ContextVar("request")
    told: list[tuple[str, str]] = []
    guard = client.lock(name).acquire()
    request.set("mine")
    guard.on_lost(lambda reason: told.append((reason, request.get())))
    request.set("another")
    client.admin.revoke(name, guard.token, now=True)
    eventually(lambda: told)
    assert told == [("revoked", "mine")]
    with pytest.raises(LeaseLost):
        guard.release()


def test_a_release_calls_nobody_and_forgets_the_callback(client: Client, name: str) -> None:
    def call(reason: str) -> None:
        told.append(reason)

    told, forgotten = [], weakref.ref(call)
    with client.lock(name) as guard:
        guard.on_lost(call)
    del call
    eventually(lambda: forgotten() is None)
    assert told == [] and guard.loss == "released"


def test_a_callback_that_fails_is_logged_and_the_next_is_called(
    client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    guard = client.lock(name).acquire()
    guard.on_lost(lambda reason: 1 / 0)
    guard.on_lost(told.append)
    client.admin.revoke(name, guard.token, now=True)
    eventually(lambda: told == ["revoked"])
    eventually(lambda: any("a callback failed" in record.message for record in caplog.records))
    with pytest.raises(LeaseLost):
        guard.release()


def test_a_callback_that_exits_does_not_keep_others_from_being_called() -> None:
    told: list[str] = []
    with Client(Memory()) as client:
        guards = [client.lock(name).acquire() for name in "ab"]
        guards[0].on_lost(lambda reason: sys.exit(1))
        guards[1].on_lost(told.append)
        for guard in guards:
            lose(client, guard)
        eventually(lambda: told == ["revoked"])


def test_a_filter_of_the_logger_that_fails_keeps_no_listener_from_being_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(record: logging.LogRecord) -> bool:
        raise ZeroDivisionError(record.msg)

    told: list[str] = []
    logger = logging.getLogger("leasehold")
    logger.addFilter(fails)
    try:
        with Client(Memory(), on_event=lambda event: told.append(event.kind)) as client:
            guards = [client.lock(name).acquire() for name in "ab"]
            for guard in guards:
                lose(client, guard)
            eventually(lambda: told.count("lost") == 2)
    finally:
        logger.removeFilter(fails)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_process_that_could_start_no_thread_for_callbacks_tries_again(program: Program) -> None:
    program(
        """
import logging, pytest, queue, threading
from leasehold import Client, Memory
logging.getLogger("leasehold").addHandler(logging.NullHandler())
start = threading.Thread.start
def fails(thread):
    threading.Thread.start = start
    raise RuntimeError("can't start new thread")
threading.Thread.start = fails
events, losses = queue.Queue(), queue.Queue()
client = Client(Memory(), on_event=events.put)
lock = client.lock("a")
with pytest.raises(RuntimeError, match="can't start new thread"):
    lock.acquire()
guard = lock.acquire()
guard.on_lost(losses.put)
client.admin.revoke("a", guard.token, now=True)
assert losses.get(timeout=30) == "revoked"
while events.get(timeout=30).kind != "lost":
    pass
"""
    )


def test_a_lease_is_renewed_while_other_code_keeps_the_gil(client: Client, name: str) -> None:
    before = sys.getswitchinterval()
    with client.lock(name, ttl=3) as guard:
        # Nobody else gets the lock while this loop runs, because the loop does not wait.
        sys.setswitchinterval(1000)
        try:
            renewed, validity = 0, guard.validity
            while renewed < 3:
                assert guard.is_held
                last, validity = validity, guard.validity
                renewed += validity > last
        finally:
            sys.setswitchinterval(before)


def test_re_entry_is_released_with_the_last_guard(client: Client, name: str) -> None:
    outer = client.lock(name).acquire()
    inner = outer.reenter()
    assert inner.token == outer.token
    outer.release()
    assert inner.is_held and client.lock(name).try_acquire() is None
    inner.release()
    assert client.lock(name).status().is_free


def test_a_thread_enters_an_rlock_again_and_another_does_not(client: Client, name: str) -> None:
    with client.rlock(name) as outer, client.rlock(name) as inner:
        assert inner.token == outer.token
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(client.rlock(name).try_acquire).result(PATIENCE) is None
    assert client.rlock(name).status().is_free
    del outer, inner
    assert not client._holds._holds, "nothing is kept of what has ended"


def test_a_thread_after_one_that_ended_does_not_enter_its_rlock(client: Client, name: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(client.rlock(name).acquire).result(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(client.rlock(name).try_acquire).result(PATIENCE) is None
    kept.release()


def test_readers_share_and_a_writer_is_alone(client: Client, name: str) -> None:
    lock = client.rwlock(name)
    reader = lock.read().acquire()
    assert reader.mode == "shared"
    with lock.read().acquire() as other:
        assert other.mode == "shared"
        assert lock.write().try_acquire() is None
    reader.release()
    with lock.write() as writer:
        assert writer.mode == "exclusive"


def test_permits_are_counted(client: Client, name: str) -> None:
    permits = client.semaphore(name, 3)
    with permits.permits(2) as two:
        assert two.mode == "permits"
        with permits:
            assert permits.try_acquire() is None


def test_several_names_are_held_all_or_none(client: Client, name: str) -> None:
    names = [f"{name}/{part}" for part in "ba"]
    with client.multi(names) as guard:
        assert guard.names == tuple(names) and list(guard.tokens) == names
        assert client.lock(names[1]).try_acquire() is None
    with client.lock(names[0]):
        assert client.multi(names).try_acquire() is None
        assert client.lock(names[1]).status().is_free


def test_a_lease_goes_to_another_process_once_and_pickles(client: Client, name: str) -> None:
    lease = client.lock(name, ttl=20).acquire().into_lease()
    copy = pickle.loads(pickle.dumps(lease))
    assert copy == lease == Lease(str(lease)) and (lease.name, lease.ttl) == (name, 20)
    with client.adopt(str(copy)) as guard:
        assert guard.token > lease.token
        with pytest.raises(NotAdopted):
            client.adopt(lease)


def test_a_guard_whose_lease_cannot_be_handed_out_stays_held(
    client: Client, store: str | Memory, name: str
) -> None:
    names = [f"{name}/{part}" for part in "abc"]
    with (
        Client(store) as another,
        client.multi(names[:2]) as several,
        client.lock(names[2]) as outer,
        outer.reenter(),
    ):
        for guard in (several, outer):
            with pytest.raises(InvalidInput, match="cannot be handed out"):
                guard.into_lease()
            assert guard.is_held
        assert [another.lock(name).try_acquire() for name in names] == [None] * 3


def test_who_leads_is_seen_and_follows_what_it_says(client: Client, name: str) -> None:
    election = client.election(name)
    assert election.leader() is None
    seen = election.observe()
    with election.campaign("10.0.0.5") as leadership:
        leader = election.leader()
        assert leader is not None and (leader.value, leader.token) == ("10.0.0.5", leadership.token)
        leadership.proclaim("10.0.0.6")
        found = next(seen)
        while found is None or found.value != "10.0.0.6":
            found = next(seen)
    assert leadership.loss == "released"
    while next(seen) is not None:
        pass


def test_a_job_is_run_by_one_and_skipped_by_the_others(client: Client, name: str) -> None:
    job, ran = client.job(name, min_hold=60), list[int]()

    @job
    def nightly(number: int) -> int:
        assert job.try_start() is None
        ran.append(number)
        return number

    assert nightly(7) == 7
    assert nightly(8) is None and job.run(ran.append, 9) is None
    assert ran == [7]


def test_a_run_that_succeeded_is_enough_on_every_machine_until_its_span_is_over(
    client: Client, store: str | Memory, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client.lock(name, once_per=3600, label="nightly") as guard:
        assert client.lock(name, once_per=3600).try_acquire() is None
    with Client(store, once_per=3600) as another, caplog.at_level(logging.INFO, "leasehold"):
        with pytest.raises(AlreadyDone, match=r"done .* ago by .*nightly.*; next ") as caught:
            another.lock(name).acquire()
        done, ran = caught.value, list[int]()
        assert (done.name, done.token, done.label) == (name, guard.token, "nightly")
        assert done.host and done.pid == os.getpid() and 0 <= done.ended_ago < PATIENCE
        assert 3600 - PATIENCE < done.next_in <= 3600
        another.job(name).run(ran.append, 1)
        another.synchronized(name, skip=True)(ran.append)(2)
        assert sum(": done " in message for message in caplog.messages) == 2
        again = another.job(name, once_per=0.001)
        eventually(lambda: again.run(ran.append, 3) or ran)
        assert ran == [3]


def test_runs_without_success_leave_nothing(client: Client, store: str | Memory, name: str) -> None:
    lock = client.lock(name, once_per=3600)
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    lock.acquire().release()
    with pytest.raises(LeaseLost), lock as guard:
        assert lose(client, guard) == "revoked"
    with pytest.raises(LeaseLost), client.lock(name, once_per=3600, max_hold=0.1) as guard:
        assert guard.wait_lost(PATIENCE) == "held_too_long"
    with Client(store) as another:
        another.lock(name, once_per=3600).acquire(timeout=PATIENCE).done()
    with pytest.raises(AlreadyDone):
        lock.try_acquire()


def test_a_decorator_names_the_lock_by_argument(client: Client, name: str) -> None:
    @client.synchronized(name + "/{invoice}", skip=True)
    def charge(invoice: int, *, again: bool = True) -> object:
        assert client.lock(f"{name}/{invoice}").try_acquire() is None
        return charge(invoice, again=False) if again else "charged"

    assert charge(42) is None
    with client.lock(f"{name}/43"):
        assert charge(43) is None
    calls: list[str] = []

    @client.synchronized(lambda part: f"{name}/{part}", timeout=0.01)
    def by_function(part: str) -> None:
        calls.append(part)

    by_function("a")
    with client.lock(f"{name}/b"), pytest.raises(LockTimeout):
        by_function("b")
    assert calls == ["a"]


def test_a_closed_client_ends_waits_and_loses_its_guards(store: str | Memory, name: str) -> None:
    told: list[str] = []
    client = Client(store, on_event=lambda event: told.append(event.kind))
    guard = client.lock(name).acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.lock(name).acquire)
        eventually(lambda: "waiting" in told)
        client.close()
        with pytest.raises(ClientClosed):
            waiting.result(PATIENCE)
    client.close()
    assert guard.loss == "closed"
    with pytest.raises(ClientClosed):
        client.lock(name).acquire()
    with pytest.raises(LeaseLost):
        guard.release()
    with Client(store) as another:
        assert another.lock(name).status().is_free


def test_a_client_that_is_closed_while_it_connects_takes_no_lock(redis: Redis, name: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        ThreadPoolExecutor(3) as pool,
        socket.create_connection(("127.0.0.1", redis.port)) as behind,
        Client(redis.url) as another,
    ):
        client = Client(f"redis://127.0.0.1:{door.getsockname()[1]}/0?timeout=60s")
        waiting = pool.submit(client.lock(name).acquire)
        with door.accept()[0] as front:
            client.close()
            for way in ((front, behind), (behind, front)):
                pool.submit(forward, *way)
            with pytest.raises(ClientClosed):
                waiting.result(PATIENCE)
            assert another.lock(name).status().is_free
            for end in (front, behind):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def test_a_forgotten_guard_is_given_back_with_a_warning(client: Client, name: str) -> None:
    guard: Guard | None = client.lock(name).acquire()
    with pytest.warns(ResourceWarning, match="was forgotten"):
        guard = None
    assert guard is None
    client.lock(name).acquire(timeout=PATIENCE).release()


def test_clients_locks_and_values_pickle(redis: Redis, name: str) -> None:
    with Client(redis.url, ttl=7) as client:
        locks = [
            client.lock(name, label="x"),
            client.rlock(name),
            client.semaphore(name + "s", 3),
            client.semaphore(name + "s", 3).permits(2),
            client.rwlock(name).read(),
            client.multi([name, name + "2"]),
        ]
        for lock in pickle.loads(pickle.dumps(locks)):
            with lock as guard:
                assert guard.validity <= 7
                status = lock.status() if len(guard.names) == 1 else None
                assert pickle.loads(pickle.dumps(status)) == status
        with pytest.raises(TypeError, match="into_lease"), client.lock(name) as guard:
            pickle.dumps(guard)
    with pytest.raises(TypeError, match="in this process alone"):
        pickle.dumps(Client(Memory()))


def test_events_are_told_and_what_matters_is_logged(
    store: str | Memory, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Event] = []
    with Client(store, on_event=told.append) as client:
        with pytest.raises(LeaseLost), client.lock(name, label="me") as guard:
            lose(client, guard)
        eventually(lambda: any(event.kind == "lost" for event in told))
    kinds = [event.kind for event in told if event.name == name and event.kind != "round_trip"]
    assert kinds[0] == "granted" and "lost" in kinds
    lost = next(event for event in told if event.kind == "lost")
    assert (lost.label, lost.token, lost.reason) == ("me", guard.token, "revoked")
    assert lost.held is not None and "revoked" in lost.text
    lines = [record for record in caplog.records if record.name == "leasehold"]
    assert any("was lost" in record.message for record in lines)
    assert all(record.levelno == logging.WARNING for record in lines)
    assert logging.getLogger("leasehold").handlers == []


def test_who_waits_for_what_its_process_holds_is_warned_once(
    client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LeaseLost), client.lock(name) as guard:
        for _ in range(2):
            with pytest.raises(LockTimeout):
                client.lock(name).acquire(timeout=0.05)
        lose(client, guard)
    eventually(lambda: any("was lost" in message for message in caplog.messages))
    assert sum("guard.reenter" in message for message in caplog.messages) == 1


def test_a_guard_is_released_after_a_renewal_by_another_thread(client: Client, name: str) -> None:
    guard = client.lock(name, renew=False, ttl=50).acquire()
    with ThreadPoolExecutor(4) as pool:
        renewals = [pool.submit(guard.renew, 60) for _ in range(4)]
        assert all(45 < renewal.result(PATIENCE) <= 60 for renewal in renewals)
    guard.release()
    assert client.lock(name).status().is_free


def test_memory_is_shared_by_the_clients_of_one(name: str) -> None:
    memory = Memory()
    with Client(memory) as one, Client(memory) as two, one.lock(name):
        assert two.lock(name).try_acquire() is None
    with Client("memory:") as one, Client("memory:") as two, one.lock(name), two.lock(name):
        pass
