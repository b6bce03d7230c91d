"""The locks for threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from leasehold._entered import this_block, this_thread
from leasehold._events import logger
from leasehold._made import _Lock, _RWLock, _Semaphore
from leasehold._refusal import OnlyPlain
from leasehold._synchronized import check_plain
from leasehold._waiting import wait
from leasehold.blocking_guard import Guard
from leasehold.errors import AlreadyDone

if TYPE_CHECKING:
    from leasehold._options import Span
    from leasehold.values import Status

P = ParamSpec("P")
T = TypeVar("T")


class Lock(OnlyPlain, _Lock[Guard]):
    """A lock with a name, a mode and options. It does no I/O until one of its methods is
    called. You can keep, share and pickle it.

    ``with lock`` acquires: each thread has its own guards, and the last one is released first.
    """

    __slots__ = ()

    def acquire(self, timeout: Span | None = None) -> Guard:
        """Waits in line until the lock is granted. A ``timeout`` of 0 tries once.

        Raises ``LockTimeout``, which names the holder; ``AlreadyDone`` with ``once_per``;
        ``StoreUnavailable`` if the store was never reached; ``Indeterminate``, ``StoreError``,
        ``InvalidInput``, ``ClientClosed``. Once the store was reached, the call waits during
        outages. Cost: one round trip if the lock is free, else one more for each second of waiting.
        If a signal handler raises, the wait ends and leaves nothing behind.
        """
        return Guard(wait(self._native.acquire(timeout)))

    def try_acquire(self) -> Guard | None:
        """Takes the lock if nobody holds it or waits for it. Returns ``None`` if it is busy.

        Raises the same as ``acquire``, and ``Indeterminate`` if no answer came. Cost: one round
        trip.
        """
        native = wait(self._native.try_acquire())
        return None if native is None else Guard(native)

    def _start(self) -> Guard | None:
        try:
            return self.try_acquire()
        except AlreadyDone as done:
            logger.info("%s", done)
            return None

    def status(self) -> Status:
        """The holders and the number of waiters. Raises ``StoreError``. Cost: one round trip."""
        return wait(self._native.status())

    def __enter__(self) -> Guard:
        guard = self.acquire()
        self._entered.push(this_block(), this_thread(), guard)
        return guard

    def __exit__(self, *raised: Any) -> None:
        self._entered.pop(this_block(), this_thread()).__exit__(*raised)


class _RLock(Lock):
    """A lock that its thread can re-enter."""

    __slots__ = ()

    def acquire(self, timeout: Span | None = None) -> Guard:
        return self._again() or self._begun(super().acquire(timeout))

    def try_acquire(self) -> Guard | None:
        return self._again() or self._begun(super().try_acquire())


@final
class Semaphore(_Semaphore[Guard, Lock], Lock):
    """A semaphore. Used as a lock, it takes one permit."""

    __slots__ = ()


@final
class RWLock(_RWLock[Lock]):
    """A lock with many readers or one writer at a time."""

    __slots__ = ()


def holding(
    lock_of: Callable[P, Lock], function: Callable[P, T], timeout: Span | None, skip: bool
) -> Callable[P, T | None]:
    """The function with a lock around each call."""
    check_plain(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
        lock = lock_of(*args, **kwargs)
        guard = lock._start() if skip else lock.acquire(timeout)
        if guard is None:
            return None
        with guard:
            return function(*args, **kwargs)

    return call
