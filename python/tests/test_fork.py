"""Tests of forks: clients and locks work on both sides, and guards stay the parent's."""

from __future__ import annotations

import pytest

from conftest import Program, Redis
from leasehold import Client

CHILD = """
import os, pytest, sys, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)
import leasehold
from leasehold import *

def in_child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
"""

GUARDS = """
client = Client(sys.argv[1])
guard = client.lock("a").acquire()
def child():
    assert not guard.is_held and guard.loss == "forked" and guard.validity == 0
    assert guard.name == "a" and guard.token > 0
    for verb in (guard.renew, guard.reenter, guard.into_lease, guard.ensure_held):
        with pytest.raises(NotOwner) as error:
            verb()
        assert error.errisinstance(RuntimeError), error
    guard.release()
    with guard:
        pass
in_child(child)
def forgets():
    global guard
    del guard
in_child(forgets)
assert guard.is_held
guard.renew()
with Client(sys.argv[1]) as other:
    assert other.lock("a").try_acquire() is None
guard.release()
"""


@pytest.fixture
def forks(program: Program) -> Program:
    """Runs a separate program that forks."""
    return lambda text, *words, **more: program(CHILD + text, *words, **more)


@pytest.mark.parametrize("url", ["{0.url}", "file:{1}/locks.db"])
def test_guards_stay_the_parents(url: str, redis: Redis, tmp_path: object, forks: Program) -> None:
    forks(GUARDS, url.format(redis, tmp_path))


def test_a_client_and_its_locks_are_made_anew_in_a_child(redis: Redis, forks: Program) -> None:
    forks(
        """
client = Client(sys.argv[1])
lock = client.lock("fork/anew")
with lock as guard:
    holder = guard.holder.split("-")[0]
def child():
    with lock as guard:
        assert guard.holder.split("-")[0] != holder
        in_child(lambda: lock.acquire(timeout=5) if lock.try_acquire() else None)
    os.write(1, b"held\\n")
in_child(child)
lock.acquire().release()
""",
        redis.url,
        says="held",
    )


def test_a_memory_begins_empty_in_a_child(forks: Program) -> None:
    forks(
        """
memory = Memory()
one, two = Client(memory), Client(memory)
guard = one.lock("a").acquire()
def child():
    with two.lock("a"):
        assert one.lock("a").try_acquire() is None
in_child(child)
assert two.lock("a").try_acquire() is None
guard.release()
"""
    )


def test_a_child_is_refused_a_file_its_parent_has_open(tmp_path: object, forks: Program) -> None:
    forks(
        """
client = Client(sys.argv[1])
def works():
    client.lock("a").acquire().release()
in_child(works)
works()
def child():
    with pytest.raises(StoreError, match="both sides of a fork") as error:
        client.lock("a").acquire()
    assert error.value.kind == "unsupported", error
in_child(child)
works()
""",
        f"file:{tmp_path}/locks.db",
    )


def test_a_child_may_open_a_file_its_parent_has_closed(tmp_path: object, forks: Program) -> None:
    forks(
        """
def works():
    with Client(sys.argv[1]) as client, client.lock("a"):
        pass
for number in range(20):
    client = Client(sys.argv[1])
    guard = client.lock("a").acquire()
    client.close()
    in_child(works)
""",
        f"file:{tmp_path}/locks.db",
    )


def test_a_busy_process_forks_100_times_and_all_children_lock(redis: Redis, forks: Program) -> None:
    forks(
        """
import threading
from concurrent.futures import ThreadPoolExecutor
client = Client(sys.argv[1], on_event=lambda event: None)
ended = threading.Event()
def busy(number):
    while not ended.is_set():
        client.lock(f"fork/busy/{number}").acquire().release()
pool = ThreadPoolExecutor(4)
busy_ones = [pool.submit(busy, number) for number in range(4)]
def child():
    with client.lock("fork/child") as guard:
        guard.on_lost(print)
for _ in range(100):
    in_child(child)
ended.set()
assert [it.result() for it in busy_ones] == [None] * 4
""",
        redis.url,
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_lock_and_give_back_at_their_exit(
    redis: Redis, program: Program, name: str, method: str
) -> None:
    program(
        """
import multiprocessing, sys, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)
from leasehold import Client

def work(lock):
    guard = lock.acquire()
    guard.on_lost(print)
    globals()["kept"] = guard

if __name__ == "__main__":
    client = Client(sys.argv[1])
    lock = client.lock(sys.argv[2])
    context = multiprocessing.get_context(sys.argv[3])
    if sys.argv[3] == "fork":
        lock.acquire().release()
    for _ in range(2):
        worker = context.Process(target=work, args=(lock,))
        worker.start()
        worker.join()
        assert worker.exitcode == 0, worker.exitcode
    lock.acquire(timeout=10).release()
""",
        redis.url,
        name,
        method,
    )
    with Client(redis.url) as client:
        assert client.lock(name).status().is_free
