"""Bad input is refused where it is given, with an error that names it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis as driver

from conftest import Redis
from leasehold import (
    Client,
    InvalidInput,
    Lease,
    Memory,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    fence,
)


@pytest.fixture
def c() -> Client:
    return Client(Memory())


def generator(x: int) -> Any:
    yield x


async def coroutine(x: int) -> None: ...


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda c: Client(5), "store is a URL"),
        (lambda c: Client(Memory(), colour="red"), "'colour' is no option"),
        (lambda c: Client(Memory(), on_event="print"), "on_event is a function"),
        (lambda c: c.lock(5), "a name is str"),
        (lambda c: c.lock(b"a"), "a name is str"),
        (lambda c: c.lock("a", ttl="5"), "ttl is seconds"),
        (lambda c: c.lock("a", ttl=None), "ttl is seconds"),
        (lambda c: c.lock("a", ttl=True), "ttl is seconds"),
        (lambda c: c.lock("a", renew=1), "renew is True or False"),
        (lambda c: c.lock("a", label=5), "label is text"),
        (lambda c: c.rlock("a", tll=5), "'tll' is no option"),
        (lambda c: c.rwlock(5), "a name is str"),
        (lambda c: c.semaphore("a", "3"), "int"),
        (lambda c: c.semaphore("a", 3).permits(1.5), "int"),
        (lambda c: c.multi("abc"), "several names"),
        (lambda c: c.multi(["a", 5]), "a name is str"),
        (lambda c: c.election("a").campaign(5), "str"),
        (lambda c: c.lock("a").acquire(timeout="5"), "timeout is seconds"),
        (lambda c: c.synchronized(5)(print), "a name is str"),
        (lambda c: c.synchronized("a")(coroutine), "is async"),
        (lambda c: c.synchronized("a")(generator), "is a generator"),
        (lambda c: c.synchronized("a", skip=True, timeout=1), "does not wait"),
        (lambda c: c.job("a").run(coroutine, 5), "is async"),
        (lambda c: c.lock("a").acquire().on_lost("print"), "takes a function"),
        (lambda c: c.adopt(None), "a lease is a Lease or its text, not NoneType"),
        (lambda c: c.adopt(7), "a lease is a Lease or its text, not int"),
        (lambda c: c.admin.revoke("a", None), "token or its holder's id, not NoneType"),
        (lambda c: c.admin.revoke("a", True), "token or its holder's id, not bool"),
        (lambda c: c.admin.names(limit=1.5), "limit is an int, not float"),
        (lambda c: fence.Fences().install("a", "5"), "int"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_type_is_a_type_error(
    what: Callable[[Client], object], says: str, c: Client
) -> None:
    with pytest.raises(TypeError, match=says):
        what(c)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda c: Client("locks.db"), "the store URL"),
        (lambda c: Client("file:"), "names no file"),
        (lambda c: Client("redis://h/?tmeout=5s"), "tmeout"),
        (lambda c: Client(Memory(), ttl=0.05), "give 100 ms to 24 h"),
        (lambda c: c.lock(""), "is empty"),
        (lambda c: c.lock("a\n"), "control character"),
        (lambda c: c.lock("a" * 513), "hashlib.sha256"),
        (lambda c: c.lock("a", ttl=timedelta(hours=25)), "give 100 ms to 24 h"),
        (lambda c: c.lock("a", ttl=-1), "ttl is -1 seconds"),
        (lambda c: c.lock("a", max_hold=float("inf")), "max_hold is inf"),
        (lambda c: c.lock("a", min_hold=float("nan")), "min_hold is nan"),
        (lambda c: c.lock("a", min_hold=2, max_hold=1), "longer than the max_hold"),
        (lambda c: c.lock("a", once_per=367 * 86400), "give at most 366 days"),
        (lambda c: c.multi(["a", "b"], once_per=1).acquire(), "a mutex of one name"),
        (lambda c: c.lock("a", label="a\nb"), "control character"),
        (lambda c: c.rwlock(""), "is empty"),
        (lambda c: c.semaphore("a", 0), "capacity is 0"),
        (lambda c: c.semaphore("a", -1), "capacity is -1"),
        (lambda c: c.semaphore("a", 2**40), "capacity is 1099511627776: give 1 to 4294967295"),
        (lambda c: c.semaphore("a", 2**70), "capacity is 1180591620717411303424: give 1 to"),
        (lambda c: fence.Fences().install("a", 2**200), str(2**200)),
        (lambda c: c.lock("a", ttl=2**70), "ttl is 1180591620717411303424 seconds"),
        (lambda c: c.lock("a", ttl=10**5000), "ttl is an int of over 4300 digits"),
        (lambda c: c.lock("a", ttl=0.0999), r"ttl is 0\.0999 seconds"),
        (lambda c: c.lock("a", ttl=timedelta.max), "ttl is 86400000000000.0 seconds"),
        (lambda c: c.lock("a").acquire().renew(2**70), "ttl is 1180591620717411303424 seconds"),
        (lambda c: c.lock("a", min_hold=1e300), r"min_hold is 1e\+300 seconds: give at most 24 h"),
        (
            lambda c: c.lock("a", min_hold=1.05, max_hold=1),
            r"1\.05s is longer than the max_hold of 1s",
        ),
        (lambda c: c.semaphore("a", 3).permits(4), "4 permits of 3"),
        (lambda c: c.multi([]), "give at least one"),
        (lambda c: c.multi(str(number) for number in range(65)).acquire(), "64"),
        (lambda c: c.election("a").campaign("a\nb"), "control character"),
        (lambda c: c.lock("a").acquire(timeout=-1), "timeout is -1 seconds"),
        (lambda c: c.synchronized("a/{y}")(lambda x: x), "names the argument 'y'"),
        (lambda c: c.synchronized("", skip=True)(lambda: None), "is empty"),
        (lambda c: c.admin.revoke("a", 0), "not a fencing token"),
        (lambda c: c.admin.names(limit=-1), "limit is -1"),
        (lambda c: c.adopt("x"), "not a lease"),
        (lambda c: Lease("x"), "not a lease"),
        (lambda c: fence.from_header("17"), "TOKEN; lock=NAME"),
        (lambda c: fence.Fences().install("a", -5), "not a fencing token"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_wrong_values_are_invalid(what: Callable[[Client], object], says: str, c: Client) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        what(c)
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


def test_no_store_is_refused_unless_the_environment_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_STORE", raising=False)
    with pytest.raises(InvalidInput, match="set LEASEHOLD_STORE"):
        Client()
    monkeypatch.setenv("LEASEHOLD_STORE", "memory:")
    with Client().lock("a") as guard:
        assert guard.is_held


def test_no_server_is_an_error_of_connections(tmp_path: object) -> None:
    with pytest.raises(StoreUnavailable, match="nothing listens there") as caught:
        Client("redis://127.0.0.1:1/").lock("a").acquire()
    assert isinstance(caught.value, ConnectionError) and caught.value.is_transient
    assert caught.value.kind == "unreachable"


def test_a_wrong_password_is_denied_and_shown_nowhere(own_redis: Redis) -> None:
    admin = driver.Redis(port=own_redis.port)
    admin.execute_command("ACL", "SETUSER", "u", "on", ">sesame", "~*", "&*", "+@all")
    admin.close()
    client = Client(own_redis.url.replace("//", "//u:hunter2@"))
    with pytest.raises(StoreDenied) as caught:
        client.connect()
    assert isinstance(caught.value, PermissionError) and caught.value.kind == "denied"
    for text in (str(caught.value), repr(client), repr(caught.value)):
        assert "hunter2" not in text
    with pytest.raises(InvalidInput) as refused:
        Client("redis://u:hunter2@h/?x=1")
    assert "hunter2" not in str(refused.value)


def test_another_capacity_is_told_as_what_it_is(redis: Redis, name: str) -> None:
    with Client(redis.url) as client, client.lock(name), pytest.raises(StoreError) as caught:
        client.semaphore(name, 3).try_acquire()
    assert caught.value.kind == "mismatch" and not caught.value.is_transient


def test_a_store_that_is_full_is_told_as_what_it_is(own_redis: Redis, name: str) -> None:
    with Client(own_redis.url) as client, driver.Redis(port=own_redis.port) as admin:
        client.connect()
        admin.config_set("maxmemory", 1)
        with pytest.raises(StoreError) as caught:
            client.lock(name).acquire()
    assert caught.value.kind == "full" and not isinstance(caught.value, ConnectionError)


def test_with_and_async_with_are_told_apart(c: Client) -> None:
    import asyncio

    async def enter() -> None:
        async with c.lock("a"):
            pass

    with pytest.raises(TypeError, match="by `with`"):
        asyncio.run(enter())
