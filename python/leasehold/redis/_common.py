"""The common base of the locks of both families, for threads and for tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import redis.exceptions as theirs

from leasehold import errors as ours
from leasehold._events import logger
from leasehold.redis._kept import KEPT
from leasehold.redis._store import url_of
from leasehold.values import Status


class LockError(ours.LeaseholdError, theirs.LockError):
    """An error for which redis-py raises ``LockError``."""


class LockNotOwnedError(ours.LeaseLost, theirs.LockNotOwnedError):
    """The lease has ended, or somebody else holds the lock."""


class ConnectionError(ours.StoreUnavailable, theirs.ConnectionError):
    """The server does not answer."""


class AuthenticationError(ours.StoreDenied, theirs.AuthenticationError):
    """The server does not know the user, or this password of it."""


class NoPermissionError(ours.StoreDenied, theirs.NoPermissionError):
    """The user lacks a right."""


class OutOfMemoryError(ours.StoreError, theirs.OutOfMemoryError):
    """The memory of the server is full."""


class ResponseError(ours.StoreError, theirs.ResponseError):
    """The server refuses for another reason."""


class _Local(threading.local):
    token: bytes | None = None
    guard: Any = None


class Base:
    """The arguments of a lock, its guard, and its errors."""

    _clients: ClassVar[Clients]

    def __init__(
        self,
        redis: Any,
        name: str | bytes | memoryview | float,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
        *,
        url: str | None = None,
    ) -> None:
        """Like ``redis.lock.Lock``, but ``sleep`` is ignored. Give ``url`` if the server cannot be
        read from ``redis``.

        With ``timeout``, the lease ends after that time and is not renewed. Without it, the lease
        is renewed while this process lives, and ends 30 s after the process has died.
        """
        self.redis = redis
        self.name = name
        self.timeout = timeout or None
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = _Local() if thread_local else SimpleNamespace(token=None, guard=None)
        self._url = url

    def _native(self) -> Any:
        options = {} if self.timeout is None else {"ttl": self.timeout, "renew": False}
        return self._clients.of(self.redis, self._url).lock(self._key(), **options)

    def _key(self) -> str:
        """The name as the client of redis-py writes it."""
        key = bytes(self.redis.get_encoder().encode(self.name))
        try:
            return key.decode()
        except UnicodeDecodeError:
            text = f"{self.name!r} is the key {key!r}, which is not UTF-8: names here are text"
            raise ours.InvalidInput(text) from None

    def _limit(self, token: object, blocking_timeout: float | None) -> float | None:
        """How long an acquire waits. Refuses a ``token``: only the store issues tokens, so that
        they grow."""
        if token is not None:
            raise TypeError("a token is given by the store, and is in `local.token` then")
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return limit and max(limit, 0)

    @contextmanager
    def _acquiring(self, blocking: bool | None) -> Iterator[bool]:
        """Yields whether to wait. Ends normally if somebody else has the key."""
        waits = self.blocking if blocking is None else blocking
        try:
            with self._errors("acquire"):
                yield waits
        except ours.LockTimeout:
            pass
        except ResponseError as error:
            if waits or "not leasehold's" not in str(error):
                raise

    def _acquired(self, guard: Any) -> bool:
        """Stores the guard, if there is one, and returns whether there is a guard."""
        if guard is None:
            return False
        KEPT.add(guard, self.timeout)
        self._hold(guard)
        return True

    def _hold(self, guard: Any) -> None:
        self.local.guard = guard
        self.local.token = None if guard is None else str(guard.token).encode()

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Translates errors, so that they are also errors of redis-py."""
        try:
            yield
        except ours.LeaseholdError as error:
            raise _translated(error, self.name, verb) from error

    @contextmanager
    def _renewing(self, verb: str) -> Iterator[Any]:
        """The guard, for a method that changes the remaining time."""
        guard = self.local.guard
        if guard is None:
            raise _named(LockError(f"Cannot {verb} an unlocked lock"), self.name)
        if self.timeout is None:
            raise _named(LockError(f"Cannot {verb} a lock with no timeout"), self.name)
        with self._errors(verb):
            yield guard

    @contextmanager
    def _releasing(self) -> Iterator[Any]:
        """The guard, for a method that releases it."""
        guard = self.local.guard
        if guard is None:
            text = "Cannot release a lock that's not owned or is already unlocked."
            raise _named(LockError(text), self.name)
        self._hold(None)
        try:
            with self._errors("release"):
                if guard.loss == "forked":
                    guard.ensure_held()
                yield guard
        finally:
            KEPT.remove(guard)

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """Wraps the end of a block: raises or logs the error of a lease that is no longer owned."""
        try:
            yield
        except (LockError, LockNotOwnedError):
            if self.raise_on_release_error:
                raise
            logger.warning("%s: was no longer owned at the end of its block", self.name)

    def _may_own(self) -> bool:
        guard = self.local.guard
        return guard is not None and guard.is_held

    def _owns(self, status: Status) -> bool:
        guard = self.local.guard
        return guard is not None and any(it.id == guard.holder for it in status.holders)

    def _not_in_time(self) -> LockError:
        return _named(LockError("Unable to acquire lock within the time specified"), self.name)


def _named(error: Any, name: object) -> Any:
    error.name = error.lock_name = name
    return error


def _translated(error: ours.LeaseholdError, name: object, verb: str) -> Exception:
    """Converts an error of the lease or of the server into one that redis-py also has."""
    made: Any = error
    if isinstance(error, (ours.LeaseLost, ours.NotOwner)):
        made = LockNotOwnedError(f"Cannot {verb} a lock that's no longer owned: {error}")
        made.reason = "forked"
    elif isinstance(error, ours.StoreUnavailable):
        made = ConnectionError(str(error))
    elif isinstance(error, ours.StoreDenied):
        lacks_right = "lacks a right" in str(error)
        made = (NoPermissionError if lacks_right else AuthenticationError)(str(error))
    elif isinstance(error, ours.StoreError):
        made = (OutOfMemoryError if error.kind == "full" else ResponseError)(str(error))
    vars(made).update(vars(error))
    return _named(made, name)


class Clients:
    """One client of leasehold per connection pool of redis-py."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._clients: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._by_url: dict[str, Any] = {}

    def of(self, redis: Any, url: str | None) -> Any:
        """The client for the same server."""
        if url is not None:
            return self._by_url.setdefault(url, self._kind(url))
        pool = redis if hasattr(redis, "nodes_manager") else redis.connection_pool
        if pool not in self._clients:
            self._clients.setdefault(pool, self._kind(url_of(redis)))
        return self._clients[pool]
