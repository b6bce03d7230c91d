"""Keeps a lease after its lock object was garbage collected, as redis-py keeps its key."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Any

from leasehold.errors import LeaseholdError

#: The smallest number of guards at which those that have ended are looked for.
FEW = 64


class Kept:
    """The guards that nobody has released yet. Each change of the table is one step for threads."""

    def __init__(self) -> None:
        self._guards: dict[int, tuple[Any, bool]] = {}
        self._many = FEW
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
        self._guards[id(guard)] = (guard, timeout is not None)
        if len(self) > self._many:
            for kept, _ in list(self._guards.values()):
                if not kept.is_held:
                    self.remove(kept)
            self._many = max(FEW, 2 * len(self))

    def remove(self, guard: Any) -> None:
        """Forgets a guard that was released."""
        self._guards.pop(id(guard), None)

    def __len__(self) -> int:
        return len(self._guards)

    def _hand_out(self) -> None:
        for guard, has_timeout in list(self._guards.values()):
            if has_timeout and guard.is_held:
                with suppress(LeaseholdError):
                    guard.into_lease()


KEPT = Kept()
