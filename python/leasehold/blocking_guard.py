"""The held lease of threads."""

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
    """A held lease. ``with guard`` lets go at its end; the guard may go from thread to thread.

    It is renewed in the background as long as it lives, unless ``renew=False``.
    """

    __slots__ = ()

    def release(self) -> None:
        """Lets go now; the first in the queue is granted in the same step.

        A second call does nothing. Raises ``LeaseLost``, once, if it was lost before: another
        holder may have worked at the same time. ``StoreError`` if the store refuses it. If no
        answer comes, the release goes on in the background. Cost: one round trip.
        """
        verb = self._native.release()
        if verb is not None:
            wait(verb)

    def renew(self, ttl: Span | None = None) -> float:
        """Renews now, and gives the validity; with a ``ttl``, for that long from now on.

        A shorter ttl takes nothing back that the store has promised. Raises ``LeaseLost``,
        ``InvalidInput``, ``StoreError``. Cost: one round trip.
        """
        left: float = wait(self._native.renew(ttl))
        return left

    def reenter(self) -> Guard:
        """A second guard on the same lease, which is released with the last of them.

        Raises ``LeaseLost``. Cost: none.
        """
        return Guard(self._native.reenter())

    def upgrade(self, timeout: Span | None = None) -> None:
        """Makes a reader the writer: waits until the others have let go. The token is a new one.

        Raises ``LockTimeout``, with the read lease as before; ``WouldDeadlock`` if another reader
        waits for the same; ``LeaseLost``, ``InvalidInput``, ``StoreError``. Cost: one round trip
        when alone, else one more for each second of waiting.
        """
        wait(self._native.upgrade(timeout))

    def try_upgrade(self) -> bool:
        """Makes a reader the writer if nobody else holds it, and says whether it is.

        Raises ``LeaseLost``, ``InvalidInput``, ``StoreError``. Cost: one round trip, or two.
        """
        upgraded: bool = wait(self._native.try_upgrade())
        return upgraded

    def downgrade(self) -> None:
        """Makes the writer a reader, and admits the readers that wait. The token stays.

        Raises ``LeaseLost``, ``InvalidInput``, ``StoreError``. Cost: one round trip.
        """
        wait(self._native.downgrade())

    def wait_lost(self, timeout: Span | None = None) -> LossReason | None:
        """Waits for the end of the lease: why it was lost, or ``None`` for a release.

        ``None`` also after ``timeout``. Cost: none.
        """
        reason: LossReason | None = wait(self._native.lost(timeout))
        return reason

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
            self.release()
            return
        try:
            self.release()
        except LeaseholdError as failed:
            note_failed_release(error, failed)


@final
class Leadership(Guard):
    """The lease of a leader. To release it is to resign."""

    __slots__ = ()

    def proclaim(self, value: str) -> None:
        """Announces another value from now on.

        Raises ``LeaseLost`` if somebody else may lead; ``InvalidInput``, ``StoreError``. Cost: two
        round trips, one of them to tell observers.
        """
        wait(self._native.proclaim(value))

    def resign(self) -> None:
        """Stops leading; the next candidate leads in the same step. As ``release``."""
        self.release()
