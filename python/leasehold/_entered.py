"""The guards of open blocks and re-entrant locks, separately for each thread and task."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

G = TypeVar("G")


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


class Entered(Generic[G]):
    """The guards of the open blocks of one lock: last in, first out. The lock does not keep a
    thread or task alive that has left a block open."""

    __slots__ = ("__weakref__", "_guards", "_left")

    def __init__(self) -> None:
        self._guards: dict[weakref.ref[Any], list[G]] = {}
        self._left: list[G] = []

    def push(self, who: Hashable, guard: G) -> None:
        """Records the guard of a block that begins."""
        self._guards.setdefault(weakref.ref(who, self._leave), []).append(guard)

    def _leave(self, who: weakref.ref[Any]) -> None:
        self._left += self._guards.pop(who, ())

    def pop(self, who: Hashable) -> G:
        """Removes and returns the guard of a block that ends: the newest guard of ``who``. If
        ``who`` has none, it is the only guard of the lock."""
        guards = self._guards.get(weakref.ref(who))
        if not guards:
            all_guards = [self._left, *self._guards.values()]
            if sum(map(len, all_guards)) != 1:
                raise RuntimeError(
                    "the block began in another thread or task, and several are open: nothing was "
                    "released; use `with lock.acquire() as guard`"
                )
            guards = max(all_guards, key=len)
        return guards.pop()

    def pop_left(self) -> G | None:
        """The guard of a block whose task will not run again, if there is one."""
        for who in list(self._guards):
            task = who()
            if task is not None and task.get_loop().is_closed():
                self._leave(who)
        return self._left.pop() if self._left else None


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
