"""The common base of both families of clients, for threads and for tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from leasehold import _core, _events, _options, _process
from leasehold._entered import Holds
from leasehold._options import Options, text_of
from leasehold.values import Lease

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from leasehold.values import Event

__all__ = ["_Client", "_process"]

L = TypeVar("L")
X = TypeVar("X")
S = TypeVar("S")
E = TypeVar("E")
J = TypeVar("J")
A = TypeVar("A")

_VARIABLE = "LEASEHOLD_STORE"


class Family(NamedTuple):
    """The types of a client, and the function that identifies its caller."""

    who: Callable[[], Hashable]
    lock: type[Any]
    rlock: type[Any]
    rwlock: type[Any]
    semaphore: type[Any]
    election: type[Any]
    job: type[Any]
    admin: type[Any]


class _Client(Generic[L, X, S, E, J, A]):
    """A client of a store, which makes locks. It does nothing before its first use."""

    __slots__ = ("__weakref__", "_given", "_holds", "_listener", "_native")

    _family: ClassVar[Family]

    def __init__(
        self,
        store: str | _core.Memory | None = None,
        *,
        on_event: Callable[[Event], object] | None = None,
        **defaults: Unpack[Options],
    ) -> None:
        """``store`` is a URL, a ``Memory``, or ``None`` for the URL in ``$LEASEHOLD_STORE``.

        ``on_event`` gets every event; a separate thread calls it. ``defaults`` are
        the options of the client's locks. Raises ``InvalidInput`` for an invalid URL or value,
        ``TypeError`` for a wrong type.
        """
        if not (on_event is None or callable(on_event)):
            raise TypeError(f"on_event is a function or None, not {type(on_event).__name__}")
        if store is None:
            store = os.environ.get(_VARIABLE) or None
        options = _options.native({}, defaults)
        self._listener = None if on_event is None else _events.Callback(on_event)
        number = self._listener.key if self._listener else 0
        self._native = _core.NativeClient(store, options, number, on_event is not None)
        self._given = (store, on_event, dict(defaults))
        self._holds = Holds()

    def lock(self, name: str, **options: Unpack[Options]) -> L:
        """A lock with at most one holder at a time. It does no I/O until one of its methods is
        called.

        Raises ``InvalidInput`` for an invalid name or option.
        """
        native = _core.NativeLock(self._native, name, "mutex", self._options({**options}))
        return self._family.lock(self, native, (("lock", (name,), {**options}),))

    def rlock(self, name: str, **options: Unpack[Options]) -> L:
        """Like ``lock``, but a thread or task that holds the name by an ``rlock`` can re-enter."""
        native = _core.NativeLock(self._native, name, "mutex", self._options({**options}))
        return self._family.rlock(self, native, (("rlock", (name,), {**options}),))

    def rwlock(self, name: str, **options: Unpack[Options]) -> X:
        """A lock with many readers or one writer at a time."""
        return self._family.rwlock(self, name, {**options})

    def semaphore(self, name: str, capacity: int, **options: Unpack[Options]) -> S:
        """A semaphore with ``capacity`` permits. Used as a lock, it takes one permit."""
        return self._family.semaphore(self, name, capacity, {**options})

    def multi(self, names: Iterable[str], **options: Unpack[Options]) -> L:
        """A lock on up to 64 names, which takes all of them or none. Such locks never deadlock with
        each other: a waiter takes them in sorted order, and keeps those that it has."""
        if isinstance(names, str):
            raise TypeError("names is several names, not one text: give a list")
        several = tuple(names)
        native = _core.NativeLock.multi(self._native, list(several), self._options({**options}))
        return self._family.lock(self, native, (("multi", (several,), {**options}),))

    def election(self, name: str, **options: Unpack[Options]) -> E:
        """An election: one leader among many candidates. Its value is stored as the label."""
        native = _core.NativeElection(self._native, name, self._options({**options}))
        steps = (("election", (name,), {**options}),)
        return self._family.election(self, native, steps)

    def job(self, name: str, **options: Unpack[Options]) -> J:
        """A job that every machine tries to start: one machine runs it, and the others skip it.

        With ``once_per``, a machine that is late skips the job if a run has succeeded.
        """
        steps = (("job", (name,), {**options}),)
        return self._family.job(self, self.lock(name, **options), steps)

    @property
    def admin(self) -> A:
        """The methods for operators."""
        return self._family.admin(self._native)

    def _adopt(self, lease: Lease | str) -> _core.Verb:
        return self._native.adopt(text_of(lease, (Lease, str), "a lease is a Lease or its text"))

    def _options(self, own: dict[str, Any]) -> _core.Options:
        return _options.native(self._given[2], own)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._native.store!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _remake, (type(self), *self._given)


def _remake(kind: type[Any], store: Any, on_event: Any, defaults: dict[str, Any]) -> Any:
    return kind(store, on_event=on_event, **defaults)
