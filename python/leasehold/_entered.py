"""The guards of open blocks and re-entrant locks, separately for each thread and task."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Hashable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import Any, Generic, TypeVar

G = TypeVar("G")

_IS_SUSPENDED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


class _Thread:
    __slots__ = ("__weakref__",)


class _Local(threading.local):
    """An object per thread. The thread's number is no substitute: a later thread may reuse it."""

    def __init__(self) -> None:
        self.thread = _Thread()


_local = _Local()


def this_thread() -> Hashable:
    """An object that identifies this thread, and never a later one."""
    return _local.thread


def this_block() -> object:
    """Identifies the block of a generator or coroutine that calls the caller. It may end in another
    thread or task."""
    frame = sys._getframe(1).f_back
    if frame is None or not frame.f_code.co_flags & _IS_SUSPENDED:
        return None
    # The frame itself would keep its callers alive. A later frame may have its number, but hardly
    # ever its code, too.
    return id(frame), frame.f_code


class Entered(Generic[G]):
    """The guards of the open blocks of one lock: last in, first out. The lock does not keep a
    thread or task alive that has left a block open."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[G, tuple[object, weakref.ref[Any]]] = {}

    def push(self, block: object, who: Hashable, guard: G) -> None:
        """Records the guard of a block that begins."""
        self._open[guard] = (block, weakref.ref(who))

    def pop(self, block: object, who: object, is_left: bool = False) -> G:
        """Removes and returns the guard of a block that ends: the newest of ``block``, or else of
        ``who``, or else the only one. If nobody runs the block, ``who`` may have no part in it."""
        # The copy is one step for threads.
        guards = [(it, at, by()) for it, (at, by) in self._open.copy().items()]
        left = [it for it, _, by in guards if is_left and (not by or by.get_loop().is_closed())]
        found = (
            [it for it, at, by in guards if at == block and (block or by is who)]
            or left
            or [it for it, _, by in guards if by is who]
            or [it for it, _, _ in guards if len(guards) == 1]
        )
        if not found:
            raise RuntimeError(
                "the block began in another thread or task, and several are open: nothing was "
                "released; use `with lock.acquire() as guard`"
            )
        del self._open[found[-1]]
        return found[-1]


class Holds:
    """The leases that each thread or task holds through the re-entrant locks of one client, and the
    guards of each lease."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: weakref.WeakValueDictionary[tuple[Hashable, str], weakref.WeakSet[Any]] = (
            weakref.WeakValueDictionary()
        )

    def again(self, who: Hashable, name: str) -> Any | None:
        """A second guard of the lease that ``who`` holds, or ``None`` if it holds none."""
        guards = self._holds.get((who, name), weakref.WeakSet())
        held = next((guard for guard in guards if guard.is_held), None)
        return None if held is None else self._note(guards, held.reenter())

    def begin(self, who: Hashable, guard: Any) -> None:
        """Records a lease that ``who`` has acquired."""
        guards = self._holds[(who, guard.name)] = weakref.WeakSet()
        self._note(guards, guard)

    @staticmethod
    def _note(guards: weakref.WeakSet[Any], guard: Any) -> Any:
        guards.add(guard)
        # The set lives as long as one of its guards.
        guard._hold = guards
        return guard
