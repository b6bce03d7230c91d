"""The guard for threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, final

from leasehold._held import _Held, note_failed_release
from leasehold._refusal import OnlyPlain
from leasehold._waiting import wait
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from typing_extensions import Self

    from leasehold._options import LossReason, Span


class Guard(OnlyPlain, _Held):
    """A held lease. ``with guard`` releases it at its end. Any thread may use the guard.

    The lease is renewed in the background as long as the guard lives, unless ``renew=False``.
    """

    __slots__ = ()

    def release(self) -> None:
        """Releases the lease now; the first waiter in the queue gets the lock in the same step.

        A second call does nothing. Raises ``LeaseLost``, once, if the lease was lost before:
        another holder may have worked at the same time. Raises ``StoreError`` if the store refuses
        the release. If no answer comes, or a signal handler raises, the release continues in the
        background. Cost: one round trip.
        """
        self._end()

    def done(self) -> None:
        """Releases the lease like ``release``, and says that the run under it has succeeded.

        A store keeps the last such run of a lock with ``once_per``. The end of a ``with`` block
        does the same, unless the block raises.
        """
        self._end(done=True)

    def _end(self, done: bool = False) -> None:
        verb = self._native.release(done)
        if verb is not None:
            wait(verb)

    def renew(self, ttl: Span | None = None) -> float:
        """Renews the lease now, and returns its validity. With a ``ttl``, this ttl is used from now
        on.

        A shorter ttl does not shorten the time that the store has already promised. Raises
        ``LeaseLost``, ``InvalidInput``, ``StoreError``. Cost: one round trip.
        """
        return wait(self._native.renew(ttl))

    def reenter(self) -> Guard:
        """A second guard of the same lease. The lease is released with its last guard.

        Raises ``LeaseLost``. Cost: none.
        """
        return Guard(self._native.reenter(), self._callbacks)

    def wait_lost(self, timeout: Span | None = None) -> LossReason | None:
        """Waits for the end of the lease. Returns the reason if it was lost, ``None`` if it was
        released.

        Also returns ``None`` after ``timeout``. Cost: none.
        """
        return wait(self._native.lost(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        if error is None:
            self.done()
            return
        try:
            self.release()
        except LeaseholdError as failed:
            note_failed_release(error, failed)


@final
class Leadership(Guard):
    """The lease of a leader. Releasing it means resigning."""

    __slots__ = ()

    def proclaim(self, value: str) -> None:
        """Replaces the value that observers see.

        Raises ``LeaseLost`` if somebody else may lead; ``InvalidInput``, ``StoreError``. Cost: two
        round trips, one of them to tell observers.
        """
        wait(self._native.proclaim(value))

    def resign(self) -> None:
        """Stops leading; the next candidate leads in the same step. Otherwise like ``release``."""
        self.release()
