"""The locks of threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from leasehold import _core
from leasehold._client import Made, Step, _Client
from leasehold._entered import Entered, this_thread
from leasehold._waiting import wait
from leasehold.blocking_guard import Guard

if TYPE_CHECKING:
    from leasehold._options import Span
    from leasehold.blocking import Client
    from leasehold.values import Status

_ASYNC = "what a Client gives is entered by `with`, not by `async with`"


class Lock(Made):
    """What to take and how. No I/O until a verb; it may be kept, shared and pickled.

    ``with lock`` acquires: each thread has its own guard, the last that it took is let go first.
    """

    __slots__ = ("_entered", "_native")

    def __init__(self, client: Client, native: _core.NativeLock, steps: tuple[Step, ...]) -> None:
        super().__init__(client, steps)
        self._native = native
        self._entered: Entered[Guard] = Entered()

    @property
    def name(self) -> str:
        """The name; of several, the first."""
        return self._native.name

    def acquire(self, timeout: Span | None = None) -> Guard:
        """Waits in line until it is granted. A ``timeout`` of 0 tries once.

        Raises ``LockTimeout``, which says who has it; ``StoreUnavailable`` if the store was never
        reached; ``Indeterminate``, ``StoreError``, ``InvalidInput``, ``ClientClosed``. Outages are
        ridden out once it was reached. Cost: one round trip when it is free, else one more for
        each second. An exception of a signal handler ends the wait and leaves nothing behind.
        """
        return Guard(wait(self._native.acquire(timeout)))

    def try_acquire(self) -> Guard | None:
        """Takes it if nobody has it or waits for it; ``None`` when it is busy.

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

    async def __aenter__(self) -> Any:
        raise TypeError(_ASYNC)

    async def __aexit__(self, *_: object) -> None:
        raise TypeError(_ASYNC)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lstrip('_')} {self.name!r}>"


class _RLock(Lock):
    """A lock that its thread enters again."""

    __slots__ = ()

    def acquire(self, timeout: Span | None = None) -> Guard:
        again: Guard | None = self._client._holds.again(this_thread(), self.name)
        if again is not None:
            return again
        guard = super().acquire(timeout)
        self._client._holds.begin(this_thread(), guard)
        return guard

    def try_acquire(self) -> Guard | None:
        again: Guard | None = self._client._holds.again(this_thread(), self.name)
        if again is not None:
            return again
        guard = super().try_acquire()
        if guard is not None:
            self._client._holds.begin(this_thread(), guard)
        return guard


@final
class Semaphore(Lock):
    """A number of permits; itself it stands for one."""

    __slots__ = ("_asked",)

    def __init__(self, client: Client, name: str, capacity: int, options: dict[str, Any]) -> None:
        self._asked = (name, capacity, client._options(options))
        steps: tuple[Step, ...] = (("semaphore", (name, capacity), options),)
        super().__init__(client, _permits(client, 1, self._asked), steps)

    def permits(self, count: int) -> Lock:
        """Several permits at once, all or none."""
        steps = (*self._steps, ("permits", (count,), {}))
        return Lock(self._client, _permits(self._client, count, self._asked), steps)


def _permits(
    client: _Client, count: int, asked: tuple[str, int, _core.Options]
) -> _core.NativeLock:
    name, capacity, options = asked
    return _core.NativeLock.permits(client._native, name, count, capacity, options)


@final
class RWLock(Made):
    """Many readers, or one writer."""

    __slots__ = ("_asked",)

    def __init__(self, client: Client, name: str, options: dict[str, Any]) -> None:
        super().__init__(client, (("rwlock", (name,), options),))
        self._asked = (name, client._options(options))
        self._lock("write")

    def read(self) -> Lock:
        """Together with other readers."""
        return self._lock("read")

    def upgradable_read(self) -> Lock:
        """Together with readers, but one at a time: it can become the writer for certain."""
        return self._lock("upgradable_read")

    def write(self) -> Lock:
        """Alone."""
        return self._lock("write")

    def _lock(self, kind: str) -> Lock:
        name, options = self._asked
        native = _core.NativeLock(self._client._native, name, kind, options)
        return Lock(self._client, native, (*self._steps, (kind, (), {})))
