"""Who has entered what: each thread and each task its own guards, last in, first out."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

G = TypeVar("G")


class _Local(threading.local):
    """An object of each thread; its number would be used again by a later one."""

    def __init__(self) -> None:
        self.thread = object()


_local = _Local()


def this_thread() -> Hashable:
    """What no other thread has or will have."""
    return _local.thread


class Entered(Generic[G]):
    """The guards of the blocks that are open on one lock."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[Hashable, list[G]] = {}

    def push(self, who: Hashable, guard: G) -> None:
        """A block has begun."""
        self._guards.setdefault(who, []).append(guard)

    def pop(self, who: Hashable) -> G:
        """A block has ended: that of ``who``, or the one there is."""
        if who not in self._guards:
            owners = list(self._guards)
            if len(owners) != 1 or len(self._guards[owners[0]]) != 1:
                raise RuntimeError(
                    "the block began elsewhere, and which of several is not known: nothing was "
                    "released; use `with lock.acquire() as guard`"
                )
            who = owners[0]
        guards = self._guards[who]
        guard = guards.pop()
        if not guards:
            self._guards.pop(who, None)
        return guard


class _Hold:
    """The guards of one lease that was entered again."""

    __slots__ = ("__weakref__", "guards")

    def __init__(self) -> None:
        self.guards: list[weakref.ref[Any]] = []


class Holds:
    """What each thread or task has through the re-entrant locks of one client."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: weakref.WeakValueDictionary[tuple[Hashable, str], _Hold] = (
            weakref.WeakValueDictionary()
        )

    def again(self, who: Hashable, name: str) -> Any | None:
        """A second guard on what ``who`` holds; ``None`` if it holds nothing."""
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
        """``who`` has acquired it."""
        hold = _Hold()
        self._holds[(who, guard.name)] = hold
        self._note(hold, guard)

    @staticmethod
    def _note(hold: _Hold, guard: Any) -> None:
        hold.guards.append(weakref.ref(guard))
        # The last of the guards keeps it.
        guard._hold = hold
