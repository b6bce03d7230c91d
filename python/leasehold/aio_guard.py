"""The guard for tasks."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, final

from leasehold import _core, _events
from leasehold._held import _Held, note_failed_release
from leasehold._loop import Scope, wait
from leasehold._refusal import OnlyAsync
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from typing_extensions import Self

    from leasehold._options import LossReason, Span


class AsyncGuard(OnlyAsync, _Held):
    """A held lease. ``async with guard`` releases it at its end; a lost lease cancels the block.

    The lease is renewed in the background as long as the guard lives, unless ``renew=False``.
    """

    __slots__ = ("_scopes",)

    def __init__(
        self, native: _core.NativeGuard, callbacks: list[_events.Callback] | None = None
    ) -> None:
        super().__init__(native, callbacks)
        self._scopes: list[Scope] = []

    async def release(self) -> None:
        """Like ``Guard.release``. A cancelled call continues in the background."""
        await self._end()

    async def done(self) -> None:
        """Like ``Guard.done``. A cancelled call continues in the background."""
        await self._end(done=True)

    async def _end(self, done: bool = False) -> None:
        verb = self._native.release(done)
        if verb is not None:
            await wait(verb)

    async def renew(self, ttl: Span | None = None) -> float:
        """Like ``Guard.renew``. A cancelled call continues in the background."""
        return await wait(self._native.renew(ttl))

    def reenter(self) -> AsyncGuard:
        """Like ``Guard.reenter``."""
        return AsyncGuard(self._native.reenter(), self._callbacks)

    async def lost(self) -> LossReason | None:
        """Like ``Guard.wait_lost`` without a limit. A cancellation changes nothing."""
        return await wait(self._native.lost(None))

    async def __aenter__(self) -> Self:
        self._scopes.append(Scope(self._native))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        scope = self._scopes.pop()
        if kind is GeneratorExit and not scope.is_current():
            # Nobody runs this block any more, so nothing can be awaited.
            scope.leave()
            return
        if scope.end(error):
            lost = scope.lost()
            # The block raises the loss, so an error of this release is ignored.
            with suppress(LeaseholdError):
                await self.release()
            raise lost from error
        if error is None:
            await self.done()
            return
        try:
            await self.release()
        except LeaseholdError as failed:
            note_failed_release(error, failed)


@final
class AsyncLeadership(AsyncGuard):
    """The lease of a leader. Releasing it means resigning."""

    __slots__ = ()

    async def proclaim(self, value: str) -> None:
        """Like ``Leadership.proclaim``. After a cancelled call, the announced value may be
        the old or the new one."""
        await wait(self._native.proclaim(value))

    async def resign(self) -> None:
        """Like ``Leadership.resign``. A cancelled call continues in the background."""
        await self.release()
