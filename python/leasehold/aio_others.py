"""Elections, jobs and the methods for operators, for tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from leasehold._loop import wait
from leasehold._made import _Admin, _Election, _Job
from leasehold.aio_guard import AsyncGuard, AsyncLeadership
from leasehold.aio_lock import AsyncLock, holding

if TYPE_CHECKING:
    from leasehold.values import Leader, Status

P = ParamSpec("P")
T = TypeVar("T")


@final
class AsyncElection(_Election):
    """An election: one leader among many candidates."""

    __slots__ = ()

    async def campaign(self, value: str) -> AsyncLeadership:
        """Like ``Election.campaign``. A cancellation leaves nothing behind."""
        return AsyncLeadership(await wait(self._native.campaign(value)))

    async def leader(self) -> Leader | None:
        """Like ``Election.leader``."""
        return await wait(self._native.leader())

    async def observe(self) -> AsyncIterator[Leader | None]:
        """Like ``Election.observe``."""
        observation = await wait(self._native.observe())
        while True:
            yield await wait(observation.next())


@final
class AsyncJob(_Job[AsyncLock]):
    """A job that every machine tries to start: one machine runs it, and the others skip it."""

    __slots__ = ()

    async def try_start(self) -> AsyncGuard | None:
        """Like ``Job.try_start``. A cancellation leaves nothing behind."""
        return await self._lock._start()

    async def run(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Like ``Job.run``."""
        return await self(function)(*args, **kwargs)

    def __call__(
        self, function: Callable[P, Awaitable[T]], /
    ) -> Callable[P, Coroutine[Any, Any, T | None]]:
        """A decorator: each call runs the function, or skips it and returns ``None``."""
        return holding(lambda *_, **__: self._lock, function, None, True)


@final
class AsyncAdmin(_Admin):
    """The methods for operators: they inspect the locks of a store and end leases. Each raises
    ``StoreError``."""

    __slots__ = ()

    async def names(self, prefix: str = "", limit: int = 1000) -> list[str]:
        """Like ``Admin.names``."""
        return await wait(self._native.names(prefix, limit))

    async def inspect(self, name: str) -> Status:
        """Like ``Admin.inspect``."""
        return await wait(self._native.inspect(name))

    async def revoke(self, name: str, lease: int | str, *, now: bool = False) -> bool:
        """Like ``Admin.revoke``. After a cancelled call, the lease may have ended or not."""
        return await wait(self._revoke(name, lease, now))

    async def end_quarantine(self) -> bool:
        """Like ``Admin.end_quarantine``. After a cancelled call, the quarantine may have ended or
        not."""
        return await wait(self._native.end_quarantine())
