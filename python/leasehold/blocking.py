"""The client of threads and its locks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, final, overload

from leasehold import _core, _synchronized
from leasehold._client import _Client
from leasehold._options import Options, Span, check_name
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
class Client(_Client):
    """Gives locks to threads and processes. Connects when it is first used.

    It may stand at the top of a module, also of a server that forks: each process has its own
    connection. ``with client`` closes it at the end.
    """

    __slots__ = ()

    def connect(self) -> Self:
        """Connects now, and says what is wrong.

        Raises ``StoreUnavailable`` after 5 s at most, ``StoreDenied``, ``StoreError``.
        """
        wait(self._native.connect())
        return self

    def lock(self, name: str, **options: Unpack[Options]) -> Lock:
        """At most one holder at a time. No I/O until a verb is called.

        Raises ``InvalidInput`` for a name or an option that is refused.
        """
        check_name(name)
        native = _core.NativeLock(self._native, name, "mutex", self._options({**options}))
        return Lock(self, native, (("lock", (name,), {**options}),))

    def rlock(self, name: str, **options: Unpack[Options]) -> Lock:
        """As ``lock``, but a thread that has the name through any ``rlock`` enters again."""
        check_name(name)
        native = _core.NativeLock(self._native, name, "mutex", self._options({**options}))
        return _RLock(self, native, (("rlock", (name,), {**options}),))

    def rwlock(self, name: str, **options: Unpack[Options]) -> RWLock:
        """Many readers, or one writer."""
        check_name(name)
        return RWLock(self, name, {**options})

    def semaphore(self, name: str, capacity: int, **options: Unpack[Options]) -> Semaphore:
        """At most ``capacity`` permits at a time. Itself it stands for one permit."""
        check_name(name)
        return Semaphore(self, name, capacity, {**options})

    def multi(
        self,
        names: Iterable[str],
        *,
        release_while_waiting: bool = False,
        **options: Unpack[Options],
    ) -> Lock:
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
        return Lock(self, native, (("multi", (several,), given),))

    def election(self, name: str, **options: Unpack[Options]) -> Election:
        """One leader among many candidates. The label is what the leader says."""
        check_name(name)
        native = _core.NativeElection(self._native, name, self._options({**options}))
        return Election(self, native, (("election", (name,), {**options}),))

    def job(self, name: str, **options: Unpack[Options]) -> Job:
        """What every machine starts and one runs; the others skip it.

        Give ``min_hold``, by which the clocks of the machines may differ.
        """
        return Job(self, self.lock(name, **options), (("job", (name,), {**options}),))

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
            name_of = _synchronized.namer(name, function)
            fixed = self.lock(str(name), **options) if name_of is None else None

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
                if fixed is not None:
                    lock = fixed
                elif name_of is not None:
                    lock = self.lock(name_of(*args, **kwargs), **options)
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

    @property
    def admin(self) -> Admin:
        """What an operator looks at and does."""
        return Admin(self._native)

    def close(self) -> None:
        """Gives back all that is held, ends waits with ``ClientClosed``. Twice is once.

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
