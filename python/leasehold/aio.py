"""The client of tasks."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, ParamSpec, TypeVar, final, overload

from leasehold import _core, _synchronized
from leasehold._client import _Client
from leasehold._loop import wait
from leasehold._options import Options, Span, check_name
from leasehold.aio_guard import _PLAIN, AsyncGuard
from leasehold.aio_lock import AsyncLock, AsyncRWLock, AsyncSemaphore, _AsyncRLock
from leasehold.aio_others import AsyncAdmin, AsyncElection, AsyncJob

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from leasehold.values import Lease

P = ParamSpec("P")
T = TypeVar("T")


@final
class AsyncClient(_Client):
    """Gives locks to tasks. Connects when it is first used.

    It serves loops one after another and at once, also after a fork. ``async with client`` closes
    it at the end.
    """

    __slots__ = ()

    async def connect(self) -> Self:
        """Connects now, and says what is wrong.

        Raises ``StoreUnavailable`` after 5 s at most, ``StoreDenied``, ``StoreError``.
        """
        await wait(self._native.connect())
        return self

    def lock(self, name: str, **options: Unpack[Options]) -> AsyncLock:
        """At most one holder at a time. No I/O until a verb is called.

        Raises ``InvalidInput`` for a name or an option that is refused.
        """
        check_name(name)
        native = _core.NativeLock(self._native, name, "mutex", self._options({**options}))
        return AsyncLock(self, native, (("lock", (name,), {**options}),))

    def rlock(self, name: str, **options: Unpack[Options]) -> AsyncLock:
        """As ``lock``, but a task that has the name through any ``rlock`` enters again."""
        check_name(name)
        native = _core.NativeLock(self._native, name, "mutex", self._options({**options}))
        return _AsyncRLock(self, native, (("rlock", (name,), {**options}),))

    def rwlock(self, name: str, **options: Unpack[Options]) -> AsyncRWLock:
        """Many readers, or one writer."""
        check_name(name)
        return AsyncRWLock(self, name, {**options})

    def semaphore(self, name: str, capacity: int, **options: Unpack[Options]) -> AsyncSemaphore:
        """At most ``capacity`` permits at a time. Itself it stands for one permit."""
        check_name(name)
        return AsyncSemaphore(self, name, capacity, {**options})

    def multi(
        self,
        names: Iterable[str],
        *,
        release_while_waiting: bool = False,
        **options: Unpack[Options],
    ) -> AsyncLock:
        """All of several names, up to 64, or none of them. Never a deadlock among such.

        Who waits keeps the names before the first that is busy; ``release_while_waiting`` lets go
        of them meanwhile.
        """
        if isinstance(names, str):
            raise TypeError("names is several names, not one text: give a list")
        several = tuple(names)
        for name in several:
            check_name(name)
        how = (release_while_waiting, self._options({**options}))
        native = _core.NativeLock.multi(self._native, list(several), *how)
        given = {"release_while_waiting": release_while_waiting, **options}
        return AsyncLock(self, native, (("multi", (several,), given),))

    def election(self, name: str, **options: Unpack[Options]) -> AsyncElection:
        """One leader among many candidates. The label is what the leader says."""
        check_name(name)
        native = _core.NativeElection(self._native, name, self._options({**options}))
        return AsyncElection(self, native, (("election", (name,), {**options}),))

    def job(self, name: str, **options: Unpack[Options]) -> AsyncJob:
        """What every machine starts and one runs; the others skip it.

        Give ``min_hold``, by which the clocks of the machines may differ.
        """
        return AsyncJob(self, self.lock(name, **options), (("job", (name,), {**options}),))

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
        """A decorator: each call holds the lock. ``"{invoice}"`` in the name is that argument.

        With ``skip`` a call while it is busy does nothing and returns ``None``; else it waits, for
        ``timeout`` at most, and raises ``LockTimeout``. Raises ``TypeError`` for a function that
        is not async, ``InvalidInput`` for an argument that the function does not have.
        """
        _synchronized.check_skip(timeout, skip)

        def decorate(
            function: Callable[P, Awaitable[T]],
        ) -> Callable[P, Coroutine[Any, Any, T | None]]:
            _synchronized.check_async(function)
            name_of = _synchronized.namer(name, function)
            fixed = self.lock(str(name), **options) if name_of is None else None

            @functools.wraps(function)
            async def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
                if fixed is not None:
                    lock = fixed
                elif name_of is not None:
                    lock = self.lock(name_of(*args, **kwargs), **options)
                guard = await (lock.try_acquire() if skip else lock.acquire(timeout))
                if guard is None:
                    return None
                async with guard:
                    return await function(*args, **kwargs)

            return call

        return decorate

    async def adopt(self, lease: Lease | str) -> AsyncGuard:
        """Takes over a lease that ``guard.into_lease()`` gave out. The first who does so has it.

        Raises ``NotAdopted`` if it has ended or was adopted before. Cost: one round trip.
        """
        return AsyncGuard(await wait(self._native.adopt(str(lease))))

    @property
    def admin(self) -> AsyncAdmin:
        """What an operator looks at and does."""
        return AsyncAdmin(self._native)

    async def close(self) -> None:
        """Gives back all that is held, ends waits with ``ClientClosed``. Twice is once.

        Raises ``StoreUnavailable`` if something could not be given back within 5 s.
        """
        await wait(self._native.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        raise TypeError(_PLAIN)

    def __exit__(self, *_: object) -> None:
        raise TypeError(_PLAIN)
