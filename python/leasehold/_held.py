"""What both families of guards are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from leasehold import _core, _events
from leasehold.errors import LeaseholdError
from leasehold.values import Lease

if TYPE_CHECKING:
    from leasehold._options import LossReason, Mode


class _Held:
    """A held lease. Its properties ask no store.

    A guard that is forgotten is released in the background, with a ``ResourceWarning``.
    """

    __slots__ = ("__weakref__", "_hold", "_native")

    def __init__(self, native: _core.NativeGuard) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name of the lock; of several, the first that was asked for."""
        return self._native.name

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are held, in the order in which they were asked for."""
        return tuple(self._native.names)

    @property
    def token(self) -> int:
        """The fencing token: carry it to what the lock protects.

        It grows with every grant of the name, and changes only by ``upgrade``.
        """
        return self._native.token

    @property
    def tokens(self) -> Mapping[str, int]:
        """The token of each name."""
        return MappingProxyType(self._native.tokens)

    @property
    def mode(self) -> Mode:
        """The mode in which it is held."""
        return self._native.mode

    @property
    def holder(self) -> str:
        """The holder, as the store knows it."""
        return self._native.holder

    @property
    def is_held(self) -> bool:
        """Whether the lease may still be relied on, by the clock and by what is known."""
        return self._native.is_held

    @property
    def loss(self) -> LossReason | None:
        """Why it is not held, or ``None`` while it is."""
        return self._native.loss

    @property
    def validity(self) -> float:
        """Seconds that it may be relied on without a renewal; 0 when it is lost."""
        return self._native.validity

    def ensure_held(self) -> None:
        """Raises ``LeaseLost`` unless it is held."""
        self._native.ensure_held()

    def on_lost(self, callback: Callable[[LossReason], object]) -> None:
        """Calls back once if the lease is lost, with the reason; not for a release.

        The call comes in the thread for events, in the context of now. It may do anything.
        """
        _events.on_lost(self._native, callback)

    def into_lease(self) -> Lease:
        """Stops renewing and gives the lease out, for ``client.adopt`` in another process.

        It ends after its ttl unless it is adopted before. Raises ``LeaseLost`` if it is lost, and
        ``InvalidInput`` for one that was entered again, of several names, or a leadership.
        """
        return Lease(self._native.into_lease())

    def __repr__(self) -> str:
        state = self.loss or "held"
        return f"<{type(self).__name__} {self.name!r} token={self.token} {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a guard does not pickle: hand the lease over with `guard.into_lease()`, and take it "
            "with `client.adopt(lease)`"
        )

    def __del__(self) -> None:
        # One whose `__init__` failed has none.
        native = getattr(self, "_native", None)
        if native is not None and native.is_kept and native.is_held:
            # Without `source=`: code that records warnings would keep the lease.
            warnings.warn(
                f"{native.name}: a guard was forgotten, which is released now: use `with`, or "
                "release it",
                ResourceWarning,
                stacklevel=2,
            )


def note_failed_release(error: BaseException, failed: LeaseholdError) -> None:
    """The block has failed by itself: that its release did, too, is told beside it."""
    text = f"and its release failed: {failed}"
    if hasattr(error, "add_note"):
        error.add_note(text)
    _events.logger.warning("a block failed with %s, %s", type(error).__name__, text)
