"""The locks for asyncio tasks."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, final

from leasehold._entered import this_block
from leasehold._events import logger
from leasehold._loop import this_task, wait
from leasehold._made import _Lock, _RWLock, _Semaphore
from leasehold._refusal import OnlyAsync
from leasehold._synchronized import check_async
from leasehold.aio_guard import AsyncGuard
from leasehold.errors import AlreadyDone

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractAsyncContextManager

    from leasehold._options import Span
    from leasehold.values import Status

    class Acquiring(Awaitable[AsyncGuard], AbstractAsyncContextManager[AsyncGuard, None], Protocol):
        """The result of ``acquire``: await it, or enter it with ``async with``."""

else:

    class Acquiring(Protocol):
        """The result of ``acquire``: await it, or enter it with ``async with``."""

        def __await__(self): ...
        async def __aenter__(self): ...
        async def __aexit__(self, kind, error, trace, /): ...


P = ParamSpec("P")
T = TypeVar("T")


class _Acquiring(OnlyAsync, Coroutine[Any, Any, AsyncGuard]):
    """An acquire that has not begun. It is a coroutine, too, so that it can become a task."""

    __slots__ = ("_coroutine", "_guard", "_lock", "_timeout")

    def __init__(self, lock: AsyncLock, timeout: Span | None) -> None:
        self._coroutine: Coroutine[Any, Any, AsyncGuard] | None = None
        self._lock = lock
        self._timeout = timeout

    def _begun(self) -> Coroutine[Any, Any, AsyncGuard]:
        if self._coroutine is None:
            self._coroutine = self._lock._take(self._timeout)
        return self._coroutine

    def __await__(self) -> Generator[Any, None, AsyncGuard]:
        return self._begun().__await__()

    def send(self, value: Any, /) -> Any:
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        return self._begun().throw(*error)

    def close(self) -> None:
        self._begun().close()

    async def __aenter__(self) -> AsyncGuard:
        self._guard = await self
        return await self._guard.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        await self._guard.__aexit__(*raised)

    if not TYPE_CHECKING:

        def __enter__(self):
            self.close()
            super().__enter__()

    def __del__(self) -> None:
        if self._coroutine is None:
            text = f"acquire of {self._lock.name!r} was never awaited"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


class AsyncLock(OnlyAsync, _Lock[AsyncGuard]):
    """A lock with a name, a mode and options. It does no I/O until one of its methods is
    called. You can keep, share and pickle it.

    ``async with lock`` acquires: each task has its own guards, and the last one is released first.
    If the lease is lost, the block is cancelled at its next await, and raises ``LeaseLost``.
    """

    __slots__ = ()

    def acquire(self, timeout: Span | None = None) -> Acquiring:
        """Like ``Lock.acquire``: await it, or enter it with ``async with``.

        A cancellation leaves nothing behind, whenever it comes. If the event loop is blocked, a
        lease that is granted meanwhile is kept and renewed until the loop runs again.
        """
        return _Acquiring(self, timeout)

    async def _take(self, timeout: Span | None) -> AsyncGuard:
        return AsyncGuard(await wait(self._native.acquire(timeout)))

    async def try_acquire(self) -> AsyncGuard | None:
        """Like ``Lock.try_acquire``. A cancellation leaves nothing behind."""
        native = await wait(self._native.try_acquire())
        return None if native is None else AsyncGuard(native)

    async def _start(self) -> AsyncGuard | None:
        try:
            return await self.try_acquire()
        except AlreadyDone as done:
            logger.info("%s", done)
            return None

    async def status(self) -> Status:
        """Like ``Lock.status``."""
        return await wait(self._native.status())

    async def __aenter__(self) -> AsyncGuard:
        guard = await self._take(None)
        self._entered.push(this_block(), this_task(), guard)
        return await guard.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        guard = self._entered.pop(this_block(), this_task(), raised[0] is GeneratorExit)
        await guard.__aexit__(*raised)


class _AsyncRLock(AsyncLock):
    """A lock that its task can re-enter."""

    __slots__ = ()

    async def _take(self, timeout: Span | None) -> AsyncGuard:
        return self._again() or self._begun(await super()._take(timeout))

    async def try_acquire(self) -> AsyncGuard | None:
        return self._again() or self._begun(await super().try_acquire())


@final
class AsyncSemaphore(_Semaphore[AsyncGuard, AsyncLock], AsyncLock):
    """A semaphore. Used as a lock, it takes one permit."""

    __slots__ = ()


@final
class AsyncRWLock(_RWLock[AsyncLock]):
    """A lock with many readers or one writer at a time."""

    __slots__ = ()


def holding(
    lock_of: Callable[P, AsyncLock],
    function: Callable[P, Awaitable[T]],
    timeout: Span | None,
    skip: bool,
) -> Callable[P, Coroutine[Any, Any, T | None]]:
    """The function with a lock around each call."""
    check_async(function)

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
        lock = lock_of(*args, **kwargs)
        guard = await (lock._start() if skip else lock.acquire(timeout))
        if guard is None:
            return None
        async with guard:
            return await function(*args, **kwargs)

    return call
