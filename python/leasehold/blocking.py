"""The client of threads and its locks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, final, overload

from leasehold import _synchronized
from leasehold._client import Family, _Client
from leasehold._entered import this_thread
from leasehold._options import Options, Span
from leasehold._waiting import wait
from leasehold.blocking_guard import Guard
from leasehold.blocking_lock import Lock, RWLock, Semaphore, _RLock
from leasehold.blocking_others import Admin, Election, Job

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from leasehold.values import Lease

P = ParamSpec("P")
T = TypeVar("T")


@final
class Client(_Client[Lock, RWLock, Semaphore, Election, Job, Admin]):
    """Gives locks to threads and processes. Connects when it is first used.

    It may stand at the top of a module, also of a server that forks: each process has its own
    connection. ``with client`` closes it at the end.
    """

    __slots__ = ()

    _family = Family(this_thread, Lock, _RLock, RWLock, Semaphore, Election, Job, Admin)

    def connect(self) -> Self:
        """Connects now, and says what is wrong.

        Raises ``StoreUnavailable`` after 5 s at most, ``StoreDenied``, ``StoreError``.
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
        """A decorator: each call holds the lock. ``"{invoice}"`` in the name is that argument.

        With ``skip`` a call while it is busy does nothing and returns ``None``; else it waits, for
        ``timeout`` at most, and raises ``LockTimeout``. Raises ``TypeError`` for an async function
        or a generator, ``InvalidInput`` for an argument that the function does not have.
        """
        _synchronized.check_skip(timeout, skip)

        def decorate(function: Callable[P, T]) -> Callable[P, T | None]:
            _synchronized.check_plain(function)
            lock_of = _synchronized.chooser(self.lock, name, function, options)

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
                lock = lock_of(*args, **kwargs)
                guard = lock.try_acquire() if skip else lock.acquire(timeout)
                if guard is None:
                    return None
                with guard:
                    return function(*args, **kwargs)

            return call

        return decorate

    def adopt(self, lease: Lease | str) -> Guard:
        """Takes over a lease that ``guard.into_lease()`` gave out. The first who does so has it.

        Raises ``NotAdopted`` if it has ended or was adopted before. Cost: one round trip.
        """
        return Guard(wait(self._native.adopt(str(lease))))

    def close(self) -> None:
        """Gives back all that is held, ends waits with ``ClientClosed``. A second call does
        nothing.

        Raises ``StoreUnavailable`` if something could not be given back within 5 s.
        """
        wait(self._native.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.close()
