"""The common base of the objects that clients make, for threads and for tasks. It does no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from leasehold import _core
from leasehold._entered import Entered
from leasehold._options import text_of

L = TypeVar("L")
G = TypeVar("G")
M = TypeVar("M")

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""One step to make an object from another: a method name and its arguments."""


def follow(client: Any, steps: tuple[Step, ...]) -> Any:
    """Makes a lock anew, from a client and the steps to it."""
    made = client
    for name, args, options in steps:
        made = getattr(made, name)(*args, **options)
    return made


class Made:
    """An object that a client has made. It pickles as the client and the steps from it."""

    __slots__ = ("__weakref__", "_client", "_steps")

    def __init__(self, client: Any, steps: tuple[Step, ...]) -> None:
        self._client = client
        self._steps = steps

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return follow, (self._client, self._steps)


class _Lock(Made, Generic[G]):
    """A lock with a name, a mode and options."""

    __slots__ = ("_entered", "_native")

    def __init__(self, client: Any, native: _core.NativeLock, steps: tuple[Step, ...]) -> None:
        super().__init__(client, steps)
        self._native = native
        self._entered: Entered[G] = Entered()

    @property
    def name(self) -> str:
        """The name. If the lock has several names, the first one."""
        return self._native.name

    def _again(self) -> G | None:
        """A second guard of the lease that the caller holds by a re-entrant lock, if any."""
        return self._client._holds.again(self._client._family.who(), self.name)

    def _begun(self, guard: M) -> M:
        """Records the guard, if there is one, so that its caller may re-enter the lock."""
        if guard is not None:
            self._client._holds.begin(self._client._family.who(), guard)
        return guard

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lstrip('_')} {self.name!r}>"


class _Semaphore(_Lock[G], Generic[G, L]):
    """A semaphore. Used as a lock, it takes one permit."""

    __slots__ = ("_asked",)

    def __init__(self, client: Any, name: str, capacity: int, options: dict[str, Any]) -> None:
        self._asked = (name, capacity, client._options(options))
        steps: tuple[Step, ...] = (("semaphore", (name, capacity), options),)
        super().__init__(client, _permits(client, 1, self._asked), steps)

    def permits(self, count: int) -> L:
        """A lock that takes several permits in one step: all or none."""
        native = _permits(self._client, count, self._asked)
        steps = (*self._steps, ("permits", (count,), {}))
        return self._client._family.lock(self._client, native, steps)


def _permits(client: Any, count: int, asked: tuple[str, int, _core.Options]) -> _core.NativeLock:
    name, capacity, options = asked
    return _core.NativeLock.permits(client._native, name, count, capacity, options)


class _RWLock(Made, Generic[L]):
    """A lock with many readers or one writer at a time."""

    __slots__ = ("_asked",)

    def __init__(self, client: Any, name: str, options: dict[str, Any]) -> None:
        super().__init__(client, (("rwlock", (name,), options),))
        self._asked = (name, client._options(options))
        self._lock("write")

    def read(self) -> L:
        """The read lock, which several readers can hold together."""
        return self._lock("read")

    def write(self) -> L:
        """The write lock, which one writer holds alone."""
        return self._lock("write")

    def _lock(self, kind: str) -> L:
        name, options = self._asked
        native = _core.NativeLock(self._client._native, name, kind, options)
        steps = (*self._steps, (kind, (), {}))
        return self._client._family.lock(self._client, native, steps)


class _Election(Made):
    """An election: one leader among many candidates."""

    __slots__ = ("_native",)

    def __init__(self, client: Any, native: _core.NativeElection, steps: tuple[Step, ...]) -> None:
        super().__init__(client, steps)
        self._native = native


class _Job(Made, Generic[L]):
    """A job that every machine tries to start: one machine runs it, and the others skip it."""

    __slots__ = ("_lock",)

    def __init__(self, client: Any, lock: L, steps: tuple[Step, ...]) -> None:
        super().__init__(client, steps)
        self._lock = lock


class _Admin:
    """The methods for operators: they inspect the locks of a store and end leases."""

    __slots__ = ("_native",)

    def __init__(self, native: _core.NativeClient) -> None:
        self._native = native

    def _revoke(self, name: str, lease: int | str, now: bool) -> _core.Verb:
        text = text_of(lease, (int, str), "a lease is named by its token or its holder's id")
        return self._native.revoke(name, text, now)
