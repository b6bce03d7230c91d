"""The common base of both families of guards, for threads and for tasks."""

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
    """A held lease. Its properties send nothing to the store.

    A guard that is garbage collected is released in the background, with a ``ResourceWarning``.
    """

    __slots__ = ("__weakref__", "_callbacks", "_hold", "_native")

    def __init__(
        self, native: _core.NativeGuard, callbacks: list[_events.Callback] | None = None
    ) -> None:
        self._native = native
        # All guards of one lease keep its callbacks.
        self._callbacks = [] if callbacks is None else callbacks

    @property
    def name(self) -> str:
        """The name of the lock. If it has several names, the first that was given."""
        return self._native.name

    @property
    def names(self) -> tuple[str, ...]:
        """All held names, in the order in which they were given."""
        return tuple(self._native.names)

    @property
    def token(self) -> int:
        """The fencing token: send it with each write to the protected resource.

        Each grant of the name gets a higher token.
        """
        return self._native.token

    @property
    def tokens(self) -> Mapping[str, int]:
        """The token of each name."""
        return MappingProxyType(self._native.tokens)

    @property
    def mode(self) -> Mode:
        """The mode in which the lease is held."""
        return self._native.mode

    @property
    def holder(self) -> str:
        """The id of the holder in the store."""
        return self._native.holder

    @property
    def is_held(self) -> bool:
        """Whether the lease is still valid, by the clock and all news that this process has."""
        return self._native.is_held

    @property
    def loss(self) -> LossReason | None:
        """The reason why the lease is no longer held, or ``None`` while it is held."""
        return self._native.loss

    @property
    def validity(self) -> float:
        """How many seconds the lease stays valid without a renewal; 0 when it is lost."""
        return self._native.validity

    def ensure_held(self) -> None:
        """Raises ``LeaseLost`` unless the lease is held."""
        self._native.ensure_held()

    def on_lost(self, callback: Callable[[LossReason], object]) -> None:
        """Registers a callback. It is called once with the reason if the lease is lost, but not
        when it is released.

        A separate thread calls it, in a copy of the present context. The callback may do anything.
        It does not keep the guard alive, if it refers to it.
        """
        self._callbacks.append(_events.on_lost(self._native, callback))

    def into_lease(self) -> Lease:
        """Stops renewing the lease and returns it, for ``client.adopt`` in another process.

        The lease ends after its ttl unless it is adopted before. Raises ``LeaseLost`` if the lease
        is lost. Raises ``InvalidInput`` for a lease that was re-entered or has several names, and
        for a leadership.
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
        # If `__init__` failed, `_native` is missing.
        native = getattr(self, "_native", None)
        if native is None:
            return
        uncalled = [it for it in self._callbacks if it.calls]
        if uncalled and native.loss not in (None, "forked", "released"):
            _events.keep(uncalled)
        if native.is_kept and native.is_held:
            # This passes no `source=`: code that records warnings would keep the guard alive, and
            # so the lease.
            warnings.warn(
                f"{native.name}: a guard was forgotten, which is released now: use `with`, or "
                "release it",
                ResourceWarning,
                stacklevel=2,
            )


def note_failed_release(error: BaseException, failed: LeaseholdError) -> None:
    """Adds the failure of a release to the error with which the block failed."""
    text = f"and its release failed: {failed}"
    if hasattr(error, "add_note"):
        error.add_note(text)
    _events.logger.warning("a block failed with %s, %s", type(error).__name__, text)
