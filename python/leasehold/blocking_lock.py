"""The locks of threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, final

from leasehold._entered import this_thread
from leasehold._made import _Lock, _RWLock, _Semaphore
from leasehold._refusal import OnlyPlain
from leasehold._waiting import wait
from leasehold.blocking_guard import Guard

if TYPE_CHECKING:
    from leasehold._options import Span
    from leasehold.values import Status


class Lock(OnlyPlain, _Lock[Guard]):
    """What to take and how. A lock does no I/O until a verb is called. It may be kept, shared and
    pickled.

    ``with lock`` acquires: each thread has its own guard, the last that it took is let go first.
    """

    __slots__ = ()

    def acquire(self, timeout: Span | None = None) -> Guard:
        """Waits in line until the lock is granted. A ``timeout`` of 0 tries once.

        Raises ``LockTimeout``, which says who has it; ``StoreUnavailable`` if the store was never
        reached; ``Indeterminate``, ``StoreError``, ``InvalidInput``, ``ClientClosed``. Outages are
        ridden out once it was reached. Cost: one round trip when it is free, else one more for
        each second. An exception of a signal handler ends the wait and leaves nothing behind.
        """
        return Guard(wait(self._native.acquire(timeout)))

    def try_acquire(self) -> Guard | None:
        """Takes the lock if nobody holds it or waits for it; ``None`` when it is busy.

        Raises as ``acquire``, and ``Indeterminate`` if no answer came. Cost: one round trip.
        """
        native = wait(self._native.try_acquire())
        return None if native is None else Guard(native)

    def wait_free(self, timeout: Span | None = None) -> None:
        """Waits until nobody holds it, and takes nothing.

        Raises ``LockTimeout``, ``StoreError``. Cost: one round trip, and one for each second.
        """
        wait(self._native.wait_free(timeout))

    def status(self) -> Status:
        """Who holds it and how many wait. Raises ``StoreError``. Cost: one round trip."""
        status: Status = wait(self._native.status())
        return status

    def __enter__(self) -> Guard:
        guard = self.acquire()
        self._entered.push(this_thread(), guard)
        return guard

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self._entered.pop(this_thread()).__exit__(kind, error, trace)


class _RLock(Lock):
    """A lock that its thread enters again."""

    __slots__ = ()

    def acquire(self, timeout: Span | None = None) -> Guard:
        return self._again() or self._begun(super().acquire(timeout))

    def try_acquire(self) -> Guard | None:
        again = self._again()
        if again is not None:
            return again
        guard = super().try_acquire()
        return None if guard is None else self._begun(guard)


@final
class Semaphore(_Semaphore[Guard, Lock], Lock):
    """A number of permits. Used as a lock, it takes one."""

    __slots__ = ()


@final
class RWLock(_RWLock[Lock]):
    """Many readers, or one writer."""

    __slots__ = ()
