"""Keeps a lease after its lock object was garbage collected, as redis-py keeps its key."""

from __future__ import annotations

import atexit
import heapq
import itertools
import os
import sys
import time
from typing import Any

from leasehold.errors import LeaseholdError


class Kept:
    """The guards that nobody has released yet."""

    def __init__(self) -> None:
        self._ending: list[tuple[float, int, Any]] = []
        self._others: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._ends_in: int | None = None

    def add(self, guard: Any, timeout: float | None) -> None:
        """Keeps a guard until it has ended."""
        if self._ends_in != os.getpid():
            self._ends_in = os.getpid()
            # Exit hooks run in reverse order, so this hook runs before the exit hook of the client.
            # It takes the leases with a timeout out of their guards, so that the client does not
            # release them.
            atexit.register(self._hand_out)
            util = sys.modules.get("multiprocessing.util")
            if util is not None:
                util.Finalize(None, self._hand_out, exitpriority=20)
        self._forget_ended()
        if timeout is None:
            self._others[id(guard)] = guard
        else:
            end = time.monotonic() + timeout
            heapq.heappush(self._ending, (end, next(self._numbers), guard))

    def remove(self, guard: Any) -> None:
        """Forgets a guard that was released."""
        self._others.pop(id(guard), None)
        self._forget_ended()

    def _forget_ended(self) -> None:
        while self._ending:
            _, _, first = self._ending[0]
            if first.is_held:
                return
            heapq.heappop(self._ending)

    def _hand_out(self) -> None:
        for _, _, guard in self._ending:
            if guard.is_held:
                try:
                    guard.into_lease()
                except LeaseholdError:
                    continue


KEPT = Kept()
