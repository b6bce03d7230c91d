"""Tests of the lock for users of redis-py: the same calls, keys, results and exceptions."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as driver
import redis.asyncio as async_driver
from redis.exceptions import LockError, LockNotOwnedError, NoPermissionError
from redis.lock import Lock as Theirs

from conftest import PATIENCE, Program, Redis, eventually
from leasehold import InvalidInput, LeaseLost, StoreDenied, StoreError
from leasehold.redis._kept import KEPT
from leasehold.redis._store import url_of
from leasehold.redis.asyncio.lock import Lock as AsyncLock
from leasehold.redis.lock import Lock


@pytest.fixture
def r(redis: Redis) -> Iterator[Any]:
    client = driver.Redis(port=redis.port)
    yield client
    client.close()


def test_it_is_acquired_and_released_as_that_of_redis_py(r: Any, name: str) -> None:
    for lock in (Lock(r, name, timeout=10), r.lock(name, timeout=10, lock_class=Lock)):
        assert lock.acquire() is True
        assert lock.locked() and lock.owned()
        assert lock.local.token == str(int(lock.local.token)).encode()
        assert r.exists(name) == 1 and 0 < r.pttl(name) < 11_000
        assert Lock(r, name).acquire(blocking=False) is False
        assert Lock(r, name).acquire(blocking_timeout=0.05) is False
        assert Lock(r, name).acquire(blocking_timeout=-1) is False
        lock.release()
        assert not lock.locked() and not lock.owned() and lock.local.token is None
        with lock as entered:
            assert entered is lock
        assert r.exists(name) == 0


def test_old_and_new_exclude_each_other(r: Any, name: str) -> None:
    old, new = Theirs(r, name, timeout=10), Lock(r, name, timeout=10)
    with old:
        assert new.acquire(blocking=False) is False and new.locked() and not new.owned()
    with new:
        assert old.acquire(blocking=False) is False and old.locked() and not old.owned()


@pytest.mark.parametrize("given", ["é", b"b", memoryview(b"m"), 42, 4.5])
def test_a_name_is_the_key_that_redis_py_makes_of_it(r: Any, given: Any) -> None:
    with Theirs(r, given, timeout=10), pytest.raises(LockError, match="within the time"):
        Lock(r, given, timeout=10, blocking_timeout=0.01).__enter__()
    with Lock(r, given, timeout=10):
        assert r.exists(given) == 1


def test_a_name_that_redis_py_refuses_or_that_is_no_text_is_refused(redis: Redis) -> None:
    with driver.Redis(port=redis.port, encoding="latin-1") as r:
        for none in (None, True, ["a"]):
            with pytest.raises(driver.DataError):
                Lock(r, none).acquire()  # type: ignore[arg-type]
        for no_text in ("é", b"\xe9"):
            with pytest.raises(InvalidInput, match="not UTF-8"):
                Lock(r, no_text).acquire()


def test_errors_are_those_of_redis_py(r: Any, name: str) -> None:
    lock = Lock(r, name, timeout=10)
    with pytest.raises(LockError, match="not owned or is already unlocked"):
        lock.release()
    with pytest.raises(LockError, match="extend an unlocked lock"):
        lock.extend(1)
    lock.acquire()
    r.delete(name)
    assert not lock.owned()
    with pytest.raises(LockNotOwnedError) as caught:
        lock.release()
    assert isinstance(caught.value, LeaseLost) and caught.value.lock_name == name
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason
    forever = Lock(r, name)
    with forever, pytest.raises(LockError, match="no timeout"):
        forever.reacquire()
    with Lock(r, name, timeout=10), pytest.raises(LockError, match="within the time"):
        Lock(r, name, blocking_timeout=0.05).__enter__()
    with Lock(r, name, timeout=10, raise_on_release_error=False):
        r.delete(name)


def test_a_token_is_refused_and_a_credential_provider_too(r: Any, name: str) -> None:
    with pytest.raises(TypeError, match=r"local\.token"):
        Lock(r, name).acquire(token="mine")  # type: ignore[arg-type]
    hidden = driver.Redis(
        credential_provider=driver.UsernamePasswordCredentialProvider("u", "hunter2")
    )
    with pytest.raises(InvalidInput, match="give the store URL") as caught:
        Lock(hidden, name).acquire()
    assert "hunter2" not in str(caught.value)
    port = r.connection_pool.connection_kwargs["port"]
    url = f"redis://127.0.0.1:{port}/0?layout=plain&prefix="
    with Lock(hidden, name, url=url):
        assert r.exists(name) == 1
    hidden.close()


def test_time_is_added_and_never_taken_back(r: Any, name: str) -> None:
    lock = Lock(r, name, timeout=10)
    with lock:
        assert lock.extend(20) is True
        assert r.pttl(name) > 25_000
        assert lock.extend(5, replace_ttl=True) is True and lock.reacquire() is True
        assert r.pttl(name) > 20_000


def test_a_lock_that_is_garbage_stays_until_its_timeout(r: Any, name: str) -> None:
    assert Lock(r, name, timeout=1).acquire()
    assert r.exists(name) == 1
    assert not Lock(r, name, timeout=1).acquire(blocking=False)
    eventually(lambda: not r.exists(name))


def test_what_was_released_is_forgotten_beside_a_lock_that_is_held(r: Any, name: str) -> None:
    before = len(KEPT)
    with Lock(r, f"{name}/held", timeout=10) as held:
        held.extend(60)
        for _ in range(10):
            with Lock(r, name, timeout=30):
                pass
        assert len(KEPT) <= before + 1


def test_at_a_programs_end_what_has_a_timeout_stays(r: Any, name: str, program: Program) -> None:
    program(
        """
import redis, sys
from leasehold.redis.lock import Lock
client = redis.Redis(port=int(sys.argv[1]))
assert Lock(client, sys.argv[2] + "/limit", timeout=3600).acquire()
assert Lock(client, sys.argv[2]).acquire()
client.close()
""",
        str(r.connection_pool.connection_kwargs["port"]),
        name,
    )
    assert r.exists(name + "/limit") == 1 and r.exists(name) == 0


def test_without_a_timeout_it_is_renewed(r: Any, name: str) -> None:
    with Lock(r, name):
        assert 0 < r.pttl(name) < 31_000


def test_threads_have_separate_guards_unless_they_share(r: Any, name: str) -> None:
    own, shared = Lock(r, name), Lock(r, name + "/shared", thread_local=False)
    assert own.acquire() and shared.acquire()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: own.local.token).result(PATIENCE) is None
        pool.submit(shared.release).result(PATIENCE)
    own.release()
    assert not shared.locked()


def test_the_store_is_the_server_of_the_client() -> None:
    tail = "?layout=plain&prefix="
    for client, url in [
        (driver.Redis("h", 7, 3), "redis://h:7/3"),
        (driver.Redis("h", username="u", password="p/w"), "redis://u:p%2Fw@h:6379"),
        (driver.Redis("h", ssl=True), "rediss://h:6379"),
        (driver.Redis(unix_socket_path="/run/r.sock"), "redis+unix:///run/r.sock"),
        (driver.Sentinel([("s", 26379)]).master_for("main"), "redis+sentinel://s:26379/main"),
        (async_driver.Redis(host="::1"), "redis://[::1]:6379"),
    ]:
        assert url_of(client) == url + tail
    assert url_of(driver.Redis("h", ssl=True, ssl_ca_certs="/a b")).endswith("&ca=%2Fa+b")
    with pytest.raises(InvalidInput, match="ssl_ca_certs"):
        url_of(driver.Redis("h", ssl=True, ssl_cert_reqs="none"))
    watched = driver.Sentinel([("s", 26379)], sentinel_kwargs={"password": "x"}).master_for("main")
    unread = ("ssl_ca_data", "ssl_ca_path", "ssl_password")
    for client in [watched, *(driver.Redis("h", ssl=True, **{it: "x"}) for it in unread)]:
        with pytest.raises(InvalidInput, match="give the store URL"):
            url_of(client)


def test_errors_of_the_server_are_those_of_both(own_redis: Redis, name: str) -> None:
    with driver.Redis(port=own_redis.port) as r:
        r.acl_setuser("u", enabled=True, passwords=["+p"], keys=["other"], commands=["+@all"])
        r.lpush("list", "a")
        user, stranger = (driver.Redis(port=own_redis.port, username="u", password=p) for p in "px")
        for client, key, error, ours in [
            (driver.Redis(port=1), name, driver.ConnectionError, ConnectionError),
            (stranger, name, driver.AuthenticationError, StoreDenied),
            (user, name, NoPermissionError, StoreDenied),
            (r, "list", driver.ResponseError, StoreError),
            (r, name, driver.OutOfMemoryError, StoreError),
        ]:
            r.config_set("maxmemory", int(error is driver.OutOfMemoryError))
            with pytest.raises(error) as caught:
                Lock(client, key).acquire()
            assert isinstance(caught.value, ours) and caught.value.lock_name == key
        r.config_set("maxmemory", 0)
        assert Lock(r, "list").acquire(blocking=False) is False


def test_a_lock_of_the_parent_is_not_owned_in_a_forked_child(
    r: Any, name: str, program: Program
) -> None:
    program(
        """
import os, pytest, redis, sys, warnings
from leasehold.redis.lock import Lock, LockNotOwnedError
warnings.filterwarnings("ignore", category=DeprecationWarning)
lock = Lock(redis.Redis(port=int(sys.argv[1])), sys.argv[2], timeout=60)
lock.acquire()
if (child := os.fork()) == 0:
    for verb in lock.reacquire, lock.release:
        with pytest.raises(LockNotOwnedError, match="the parent's") as caught:
            verb()
        assert caught.value.reason == "forked"
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
lock.release()
""",
        str(r.connection_pool.connection_kwargs["port"]),
        name,
    )


def test_the_asyncio_twin_does_the_same(redis: Redis, name: str) -> None:
    async def main() -> None:
        r = async_driver.Redis(port=redis.port)
        lock = r.lock(name, timeout=10, lock_class=AsyncLock)
        async with lock:
            assert await lock.owned() and await lock.locked()
            assert await AsyncLock(r, name).acquire(blocking=False) is False
            assert await AsyncLock(r, name).acquire(blocking_timeout=0.05) is False
            assert await lock.extend(20) and await lock.reacquire()
            assert await r.pttl(name) > 25_000
        with pytest.raises(LockError):
            await lock.release()
        assert await asyncio.create_task(AsyncLock(r, name).acquire()) is True
        assert await r.exists(name) == 1
        await r.delete(name)
        await r.aclose()

    asyncio.run(main())
