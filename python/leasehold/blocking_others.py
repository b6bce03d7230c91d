"""Elections, jobs and the methods for operators, for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ParamSpec, TypeVar, final

from leasehold._made import _Admin, _Election, _Job
from leasehold._waiting import wait
from leasehold.blocking_guard import Guard, Leadership
from leasehold.blocking_lock import Lock, holding

if TYPE_CHECKING:
    from leasehold.values import Leader, Status

P = ParamSpec("P")
T = TypeVar("T")


@final
class Election(_Election):
    """An election: one leader among many candidates."""

    __slots__ = ()

    def campaign(self, value: str) -> Leadership:
        """Waits until this candidate leads with ``value``, such as an address.

        Raises ``InvalidInput`` for a value over 1 KiB or with control characters, and the errors of
        ``Lock.acquire``. Cost: that of ``Lock.acquire``, and one round trip to notify observers.
        """
        return Leadership(wait(self._native.campaign(value)))

    def leader(self) -> Leader | None:
        """The leader, or ``None``. Raises ``StoreError``. Cost: one round trip."""
        return wait(self._native.leader())

    def observe(self) -> Iterator[Leader | None]:
        """Yields the present leader, and then each change. It never ends, and waits during outages.

        Raises ``StoreError`` for a failure that will not pass by itself. Cost: one round trip a
        second.
        """
        observation = wait(self._native.observe())
        while True:
            yield wait(observation.next())


@final
class Job(_Job[Lock]):
    """A job that every machine tries to start: one machine runs it, and the others skip it."""

    __slots__ = ()

    def try_start(self) -> Guard | None:
        """The guard of the run, or ``None`` if another machine runs the job or has run it.

        Raises the same as ``Lock.try_acquire``. Cost: one round trip.
        """
        return self._lock._start()

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Runs the job here, or skips it and returns ``None``."""
        return self(function)(*args, **kwargs)

    def __call__(self, function: Callable[P, T], /) -> Callable[P, T | None]:
        """A decorator: each call runs the function, or skips it and returns ``None``."""
        return holding(lambda *_, **__: self._lock, function, None, True)


@final
class Admin(_Admin):
    """The methods for operators: they inspect the locks of a store and end leases. Each raises
    ``StoreError``."""

    __slots__ = ()

    def names(self, prefix: str = "", limit: int = 1000) -> list[str]:
        """Names that are held or awaited, in no particular order. Cost: a scan of all keys."""
        return wait(self._native.names(prefix, limit))

    def inspect(self, name: str) -> Status:
        """The holders of a name and the number of waiters. Cost: one round trip."""
        return wait(self._native.inspect(name))

    def revoke(self, name: str, lease: int | str, *, now: bool = False) -> bool:
        """Ends the lease with this token, or of the holder with this id, and returns whether there
        was such a lease.

        A process may have passed its lease on to another of its callers, with a higher token,
        before the store shows that. So the shown token ends the lease, and so does a higher token
        of it. The token of a former holder is refused once the next holder is shown.
        The holder is notified, and the name becomes free once the holder has had time to stop, or
        immediately with ``now``. Cost: one round trip with an id, two with a token.
        """
        return wait(self._revoke(name, lease, now))

    def end_quarantine(self) -> bool:
        """Ends the quarantine of the store because an operator has decided so. Returns whether
        this kind of store has quarantines at all."""
        return wait(self._native.end_quarantine())
