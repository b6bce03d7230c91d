"""How a task waits for a verb: finished verbs wake the event loop once for all of them."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any
from weakref import WeakKeyDictionary

from leasehold import _core
from leasehold.errors import LeaseLost

_NO_LOOP = (
    "an AsyncClient needs a running asyncio loop (under trio use anyio on asyncio; without a loop "
    "use Client)"
)

if sys.version_info >= (3, 11):

    def _cancellations(task: asyncio.Task[Any]) -> int:
        return task.cancelling()

    def _is_alone(task: asyncio.Task[Any], before: int, error: object, by: object) -> bool:
        return task.uncancel() <= before

else:

    def _cancellations(task: asyncio.Task[Any]) -> int:
        return 0

    def _is_alone(
        task: asyncio.Task[Any], before: int, error: BaseException | None, by: object
    ) -> bool:
        return error is not None and error.args == (by,)


class Scope:
    """A block that is cancelled when the lease of its guard is lost, the way ``asyncio.timeout``
    does."""

    __slots__ = ("_before", "_bridge", "_key", "_native", "_task", "is_lost")

    def __init__(self, native: _core.NativeGuard) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a block of `async with` belongs to a task")
        self._bridge = here()
        self._native = native
        self._task = task
        self._before = _cancellations(task)
        self.is_lost = False
        self._key = native.watch(self._bridge.completions)
        self._bridge.waiting[self._key] = self

    def __repr__(self) -> str:
        return f"the lease of {self._native.name!r} was lost"

    def lose(self) -> None:
        """Called when the lease is lost: ends the block at its next await."""
        self.is_lost = True
        self._task.cancel(self)

    def end(self, error: BaseException | None) -> bool:
        """Stops watching, and returns whether only the loss ended the block."""
        if self._bridge.waiting.pop(self._key, None) is not None:
            self._native.unwatch(self._bridge.completions, self._key)
        if not self.is_lost:
            return False
        is_alone = _is_alone(self._task, self._before, error, self)
        return is_alone and isinstance(error, asyncio.CancelledError)

    def lost(self) -> LeaseLost:
        """The error with which the block was ended."""
        try:
            self._native.ensure_held()
        except LeaseLost as error:
            return error
        return LeaseLost(f"{self._native.name}: the lease was lost")


class Bridge:
    """The running verbs of one loop, and their waiters."""

    __slots__ = ("_call_soon", "completions", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self.completions = _core.Completions()
        self.waiting: dict[int, asyncio.Future[Any] | Scope] = {}
        loop.add_reader(self.completions.fileno(), self._take)

    def _take(self) -> None:
        ended = self.completions.take()
        for key, failed, value in ended:
            waiter = self.waiting.pop(key, None)
            if isinstance(waiter, Scope):
                waiter.lose()
            elif waiter is None or waiter.done():
                continue
            elif failed:
                waiter.set_exception(value)
            else:
                waiter.set_result(value)
        if len(ended) > 1:
            # The tasks that wake now begin their next verbs before `hand_over` runs, which then
            # hands over all of them.
            self.completions.gather()
            self._call_soon(self.completions.hand_over)

    def close(self) -> None:
        """Aborts all verbs, because the loop is closed."""
        self.completions.close()
        self.waiting.clear()


_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = WeakKeyDictionary()


def here() -> Bridge:
    """The bridge of the running loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(_NO_LOOP) from None
    bridge = _bridges.get(loop)
    if bridge is None:
        for other in [other for other in list(_bridges) if other.is_closed()]:
            closed = _bridges.pop(other, None)
            if closed is not None:
                closed.close()
        bridge = _bridges[loop] = Bridge(loop)
    return bridge


async def wait(verb: _core.Verb) -> Any:
    """Begins a verb and waits for it. If the task is cancelled, the verb is aborted, unless it is a
    kind of verb that continues without its caller."""
    bridge = here()
    future = asyncio.get_running_loop().create_future()
    key = bridge.completions.begin(verb)
    bridge.waiting[key] = future
    try:
        return await future
    except asyncio.CancelledError:
        if not future.cancelled() and future.done() and future.exception() is None:
            # The result came at the moment of the cancellation. A traceback may keep the future,
            # and so the lease, alive for long: release it here.
            _give_back(bridge, future.result())
        raise
    finally:
        if bridge.waiting.pop(key, None) is not None:
            bridge.completions.cancel(key)


def _give_back(bridge: Bridge, value: object) -> None:
    """Releases a lease that nobody has received."""
    if isinstance(value, _core.NativeGuard):
        release = value.release()
        if release is not None:
            bridge.completions.cancel(bridge.completions.begin(release))


def this_task() -> object:
    """The current task."""
    return asyncio.current_task()


# A forked child has its own loops.
os.register_at_fork(after_in_child=_bridges.clear)
