"""How a task waits for a verb: finished verbs wake the event loop once for all of them."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from typing import Any
from weakref import WeakKeyDictionary, ref

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
        self._task = ref(task)
        self._before = _cancellations(task)
        self.is_lost = False
        self._key = native.watch(self._bridge.completions)
        self._bridge.waiting[self._key] = self

    def __repr__(self) -> str:
        return f"the lease of {self._native.name!r} was lost"

    def lose(self) -> None:
        """Called when the lease is lost: ends the block at its next await."""
        self.is_lost = True
        task = self._task()
        if task is not None:
            task.cancel(self)

    def end(self, error: BaseException | None) -> bool:
        """Stops watching, and returns whether only the loss ended the block."""
        if self._bridge.waiting.pop(self._key, None) is not None:
            self._native.unwatch(self._bridge.completions, self._key)
        task = self._task()
        if task is None or not self.is_lost:
            return False
        is_alone = _is_alone(task, self._before, error, self)
        return is_alone and isinstance(error, asyncio.CancelledError)

    def is_current(self) -> bool:
        """Whether the task of the block is running."""
        return self._task() is this_task() is not None

    def is_left(self) -> bool:
        """Whether a task that has not ended has the block open."""
        task = self._task()
        return task is not None and not task.done()

    def leave(self) -> str:
        """Releases the lease of a block whose task will not run again, in the background."""
        self.end(None)
        self._native.release()
        return self._native.name

    def lost(self) -> LeaseLost:
        """The error with which the block was ended."""
        try:
            self._native.ensure_held()
        except LeaseLost as error:
            return error
        return LeaseLost(f"{self._native.name}: the lease was lost")


class Bridge:
    """The running verbs of one loop, and their waiters. Only its loop keeps it."""

    __slots__ = ("__weakref__", "completions", "waiting")

    def __init__(self) -> None:
        self.completions = _core.Completions()
        self.waiting: dict[int, asyncio.Future[Any] | Scope] = {}

    def take(self) -> None:
        """Wakes those whose verbs have ended."""
        ended = self.completions.take()
        for key, failed, value in ended:
            waiter = self.waiting.get(key)
            if isinstance(waiter, Scope):
                del self.waiting[key]
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
            asyncio.get_running_loop().call_soon(self.completions.hand_over)

    def close(self) -> None:
        """Ends what the tasks of the loop, which is closed, wait for and hold in blocks."""
        self.completions.close()
        waiting, self.waiting = self.waiting, {}
        for waiter in waiting.values():
            if isinstance(waiter, asyncio.Future):
                _give_back(waiter)
        left = [it.leave() for it in waiting.values() if isinstance(it, Scope) and it.is_left()]
        if left:
            text = f"{', '.join(left)}: its loop was closed in a block, so it is released now"
            warnings.warn(text, ResourceWarning, stacklevel=2)


class _Reader:
    """What a loop calls when verbs have ended. The loop drops it when the loop is closed."""

    __slots__ = ("_bridge",)

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def __call__(self) -> None:
        self._bridge.take()

    def __del__(self) -> None:
        self._bridge.close()


_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[Bridge]] = WeakKeyDictionary()


def here() -> Bridge:
    """The bridge of the running loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(_NO_LOOP) from None
    known = _bridges.get(loop)
    bridge = None if known is None else known()
    if bridge is None:
        bridge = Bridge()
        loop.add_reader(bridge.completions.fileno(), _Reader(bridge))
        _bridges[loop] = ref(bridge)
    return bridge


async def wait(verb: _core.Verb) -> Any:
    """Begins a verb and waits for it. If the task is cancelled, the verb is aborted, unless it is a
    kind of verb that continues without its caller."""
    bridge = here()
    key, ended = bridge.completions.begin(verb)
    if key is None:
        return ended
    future = asyncio.get_running_loop().create_future()
    bridge.waiting[key] = future
    try:
        return await future
    except (asyncio.CancelledError, GeneratorExit):
        _give_back(future)
        raise
    finally:
        bridge.waiting.pop(key, None)
        if future.cancelled() or not future.done():
            bridge.completions.cancel(key)


def _give_back(future: asyncio.Future[Any]) -> None:
    """Releases a lease that nobody has received, in the background. A traceback may keep the
    future, and so the lease, alive for long."""
    if future.done() and not future.cancelled() and future.exception() is None:
        value = future.result()
        if isinstance(value, _core.NativeGuard):
            value.release()


def this_task() -> asyncio.Task[Any] | None:
    """The current task, if a loop is running."""
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


# A forked child has its own loops.
os.register_at_fork(after_in_child=_bridges.clear)
