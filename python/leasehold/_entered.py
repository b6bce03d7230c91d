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


class _Hold:
    """The guards of one lease, which its holder may re-enter."""

    __slots__ = ("__weakref__", "guards")

    def __init__(self) -> None:
        self.guards: list[weakref.ref[Any]] = []


class Holds:
    """The leases that each thread or task holds through the re-entrant locks of one client."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: weakref.WeakValueDictionary[tuple[Hashable, str], _Hold] = (
            weakref.WeakValueDictionary()
        )

    def again(self, who: Hashable, name: str) -> Any | None:
        """A second guard of the lease that ``who`` holds, or ``None`` if it holds none."""
        hold = self._holds.get((who, name))
        if hold is None:
            return None
        hold.guards = [guard for guard in hold.guards if guard() is not None]
        for reference in hold.guards:
            held = reference()
            if held is not None and held.is_held:
                again = held.reenter()
                self._note(hold, again)
                return again
        return None

    def begin(self, who: Hashable, guard: Any) -> None:
        """Records a lease that ``who`` has acquired."""
        hold = _Hold()
        self._holds[(who, guard.name)] = hold
        self._note(hold, guard)

    @staticmethod
    def _note(hold: _Hold, guard: Any) -> None:
        hold.guards.append(weakref.ref(guard))
        # The record lives as long as one of its guards.
        guard._hold = hold
