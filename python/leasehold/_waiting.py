"""How a thread waits for a verb: the thread drives the verb itself, unless it is a greenlet."""

from __future__ import annotations

import select
from types import BuiltinFunctionType
from typing import Any

from leasehold import _core


def is_green() -> bool:
    """Whether gevent or eventlet replaces threads, so that nothing may block."""
    return type(select.select) is not BuiltinFunctionType


def wait(verb: _core.Verb) -> Any:
    """Waits for a verb, and returns its result."""
    return _wait_green(verb) if is_green() else verb.wait()


def _wait_green(verb: _core.Verb) -> Any:
    """Waits under gevent or eventlet: other greenlets run meanwhile, and a killed greenlet no
    longer waits in the queue of the lock."""
    completions = _core.Completions()
    try:
        key, value = completions.begin(verb)
        if key is None:
            return value
        while not (ended := completions.take()):
            select.select([completions], [], [])
        _, failed, value = ended[0]
        if failed:
            raise value
        return value
    finally:
        completions.close()
