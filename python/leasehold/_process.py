"""The hooks at the exit of the interpreter."""

from __future__ import annotations

import atexit
import sys

from leasehold import _core, _events

_EXIT_PATIENCE = 1.0
"""How many seconds the releases at the exit may take. After that, leases end by their ttl."""


def begin() -> None:
    """The native part calls this before the first verb of a process."""
    _events.start()
    atexit.register(_end)
    # A worker that multiprocessing has forked does not run atexit, but runs this finalizer.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _end, exitpriority=10)


def _end() -> None:
    _core.end(_EXIT_PATIENCE)
    _core.end_told()
    _events.join(_EXIT_PATIENCE)
