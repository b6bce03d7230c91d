"""Elections, jobs and what an operator does, for tasks."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from leasehold import _synchronized
from leasehold._loop import wait
from leasehold._made import _Admin, _Election, _Job
from leasehold.aio_guard import AsyncGuard, AsyncLeadership
from leasehold.aio_lock import AsyncLock

if TYPE_CHECKING:
    from leasehold.values import Leader, Status

P = ParamSpec("P")
T = TypeVar("T")


@final
class AsyncElection(_Election):
    """One leader among many candidates."""

    __slots__ = ()

    async def campaign(self, value: str) -> AsyncLeadership:
        """Waits until this candidate leads with ``value``, such as an address.

        Raises ``InvalidInput`` for a value over 1 KiB or with control characters; as
        ``AsyncLock.acquire``. Cost: as that, and one round trip to tell observers.
        """
        return AsyncLeadership(await wait(self._native.campaign(value)))

    async def leader(self) -> Leader | None:
        """Who leads, or ``None``. Raises ``StoreError``. Cost: one round trip."""
        leader: Leader | None = await wait(self._native.leader())
        return leader

    async def observe(self) -> AsyncIterator[Leader | None]:
        """Who leads now, and then each change. It never ends, and rides outages out.

        Raises ``StoreError`` for what will not pass by itself. Cost: one round trip every 10 s
        while nothing changes.
        """
        observation = await wait(self._native.observe())
        while True:
            yield await wait(observation.next())


@final
class AsyncJob(_Job[AsyncLock]):
    """A job that every machine starts and one runs; the others skip it."""

    __slots__ = ()

    async def try_start(self) -> AsyncGuard | None:
        """The guard of the run; ``None`` if another machine runs it, or did just now.

        Raises as ``AsyncLock.try_acquire``. Cost: one round trip.
        """
        return await self._lock.try_acquire()

    async def run(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Runs it here, or skips it and gives ``None``."""
        _synchronized.check_async(function)
        guard = await self.try_start()
        if guard is None:
            return None
        async with guard:
            return await function(*args, **kwargs)

    def __call__(
        self, function: Callable[P, Awaitable[T]], /
    ) -> Callable[P, Coroutine[Any, Any, T | None]]:
        """A decorator: each call runs the function, or skips it and gives ``None``."""
        _synchronized.check_async(function)

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
            return await self.run(function, *args, **kwargs)

        return call


@final
class AsyncAdmin(_Admin):
    """Looks at the locks of a store and ends leases. Each raises ``StoreError``."""

    __slots__ = ()

    async def names(self, prefix: str = "", limit: int = 1000) -> list[str]:
        """Names that are held or awaited, in no particular order. Cost: a scan of all keys."""
        names: list[str] = await wait(self._native.names(prefix, limit))
        return names

    async def inspect(self, name: str) -> Status:
        """Who holds a name and how many wait. Cost: one round trip."""
        status: Status = await wait(self._native.inspect(name))
        return status

    async def revoke(self, name: str, token: int, *, now: bool = False) -> bool:
        """Ends the lease with that token, and says whether there was one.

        The holder is told, and the name is free once it may have noticed; with ``now`` at once.
        Cost: one round trip.
        """
        revoked: bool = await wait(self._native.revoke(name, token, now))
        return revoked

    async def set_capacity(self, name: str, capacity: int) -> int | None:
        """Changes the capacity of a semaphore; gives the capacity before. Cost: one round trip."""
        before: int | None = await wait(self._native.set_capacity(name, capacity))
        return before

    async def deadlocks(self) -> list[str]:
        """The clients that probably wait for each other, a sentence for each deadlock. Cost: a scan
        of all names.
        """
        found: list[str] = await wait(self._native.deadlocks())
        return found

    async def end_quarantine(self) -> bool:
        """Ends a quarantine on the word of an operator; says whether the store keeps any."""
        ended: bool = await wait(self._native.end_quarantine())
        return ended
