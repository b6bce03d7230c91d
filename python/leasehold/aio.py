"""The client for asyncio tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, final, overload

from leasehold import _synchronized
from leasehold._client import Family, _Client
from leasehold._loop import this_task, wait
from leasehold._options import Options, Span
from leasehold._refusal import OnlyAsync
from leasehold.aio_guard import AsyncGuard
from leasehold.aio_lock import AsyncLock, AsyncRWLock, AsyncSemaphore, _AsyncRLock, holding
from leasehold.aio_others import AsyncAdmin, AsyncElection, AsyncJob

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from leasehold.values import Lease

P = ParamSpec("P")
T = TypeVar("T")


@final
class AsyncClient(
    OnlyAsync, _Client[AsyncLock, AsyncRWLock, AsyncSemaphore, AsyncElection, AsyncJob, AsyncAdmin]
):
    """A client of a store, which makes locks for tasks. It connects on its first use.

    It works on several event loops, one after the other or at the same time, and also after a fork.
    ``async with client`` closes it at the end.
    """

    __slots__ = ()

    _family = Family(
        this_task,
        AsyncLock,
        _AsyncRLock,
        AsyncRWLock,
        AsyncSemaphore,
        AsyncElection,
        AsyncJob,
        AsyncAdmin,
    )

    async def connect(self) -> Self:
        """Like ``Client.connect``."""
        await wait(self._native.connect())
        return self

    @overload
    def synchronized(
        self,
        name: str | Callable[..., str],
        *,
        timeout: Span | None = None,
        skip: Literal[False] = False,
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]: ...
    @overload
    def synchronized(
        self, name: str | Callable[..., str], *, skip: Literal[True], **options: Unpack[Options]
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T | None]]]: ...
    def synchronized(
        self,
        name: str | Callable[..., str],
        *,
        timeout: Span | None = None,
        skip: bool = False,
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T | None]]]:
        """Like ``Client.synchronized``, for async functions.

        Raises ``TypeError`` for a function that is not async.
        """
        _synchronized.check_skip(timeout, skip)

        def decorate(
            function: Callable[P, Awaitable[T]],
        ) -> Callable[P, Coroutine[Any, Any, T | None]]:
            lock_of = _synchronized.chooser(self.lock, name, function, options)
            return holding(lock_of, function, timeout, skip)

        return decorate

    async def adopt(self, lease: Lease | str) -> AsyncGuard:
        """Like ``Client.adopt``. A cancelled call may end the lease."""
        return AsyncGuard(await wait(self._adopt(lease)))

    async def close(self) -> None:
        """Like ``Client.close``. A cancelled call continues in the background."""
        await wait(self._native.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.close()
