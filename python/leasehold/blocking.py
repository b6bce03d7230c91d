"""The client for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, final, overload

from leasehold import _synchronized
from leasehold._client import Family, _Client
from leasehold._entered import this_thread
from leasehold._options import Options, Span
from leasehold._waiting import wait
from leasehold.blocking_guard import Guard
from leasehold.blocking_lock import Lock, RWLock, Semaphore, _RLock, holding
from leasehold.blocking_others import Admin, Election, Job

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from leasehold.values import Lease

P = ParamSpec("P")
T = TypeVar("T")


@final
class Client(_Client[Lock, RWLock, Semaphore, Election, Job, Admin]):
    """A client of a store, which makes locks for threads and processes. It connects on first use.

    You can create it at the top of a module, even in a server that forks: each process has its own
    connection. ``with client`` closes it at the end.
    """

    __slots__ = ()

    _family = Family(this_thread, Lock, _RLock, RWLock, Semaphore, Election, Job, Admin)

    def connect(self) -> Self:
        """Connects now, so that a failure shows immediately.

        Raises ``StoreUnavailable`` after at most 5 s, ``StoreDenied``, ``StoreError``.
        """
        wait(self._native.connect())
        return self

    @overload
    def synchronized(
        self,
        name: str | Callable[..., str],
        *,
        timeout: Span | None = None,
        skip: Literal[False] = False,
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
    @overload
    def synchronized(
        self, name: str | Callable[..., str], *, skip: Literal[True], **options: Unpack[Options]
    ) -> Callable[[Callable[P, T]], Callable[P, T | None]]: ...
    def synchronized(
        self,
        name: str | Callable[..., str],
        *,
        timeout: Span | None = None,
        skip: bool = False,
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, T]], Callable[P, T | None]]:
        """A decorator: each call holds the lock. ``"{invoice}"`` in the name is replaced by the
        argument ``invoice``.

        If the lock is busy, a call waits for at most ``timeout`` and then raises ``LockTimeout``;
        with ``skip``, the call does nothing and returns ``None``, also for ``AlreadyDone``. Raises
        ``TypeError`` for an async function or a generator, ``InvalidInput`` for an argument that
        the function does not have.
        """
        _synchronized.check_skip(timeout, skip)

        def decorate(function: Callable[P, T]) -> Callable[P, T | None]:
            lock_of = _synchronized.chooser(self.lock, name, function, options)
            return holding(lock_of, function, timeout, skip)

        return decorate

    def adopt(self, lease: Lease | str) -> Guard:
        """Takes over a lease that ``guard.into_lease()`` returned. Only the first call gets it.

        Raises ``NotAdopted`` if the lease has ended or was adopted before. Cost: one round trip.
        """
        return Guard(wait(self._adopt(lease)))

    def close(self) -> None:
        """Releases all leases; all waits end with ``ClientClosed``. A second call does nothing.

        Raises ``StoreUnavailable`` if a lease could not be released within 5 s.
        """
        wait(self._native.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()
