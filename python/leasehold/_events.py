"""The event thread. Only this thread calls the callbacks for events and losses, so a callback may
do anything."""

from __future__ import annotations

import itertools
import logging
import select
import threading
import traceback
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from leasehold import _core
from leasehold._waiting import is_green
from leasehold.values import Event

if TYPE_CHECKING:
    from leasehold._options import LossReason

logger = logging.getLogger("leasehold")

_numbers = itertools.count(1)
_thread: threading.Thread | None = None


class Callback:
    """A callback and the context of its registration. The client or the guard keeps it, and this
    module does not: an object that is called back, and that has the client, can be collected."""

    __slots__ = ("__weakref__", "calls", "key")

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.calls: tuple[Context, Callable[[Any], object]] | None = (copy_context(), function)
        self.key = next(_numbers)
        _callbacks[self.key] = self


_callbacks: weakref.WeakValueDictionary[int, Callback] = weakref.WeakValueDictionary()
_due: dict[int, Callback] = {}
"""The callbacks of leases that were lost, and whose guards were forgotten before the call."""


def on_lost(guard: _core.NativeGuard, function: Callable[[LossReason], object]) -> Callback:
    """Registers a function, which is called once if the lease is lost while the returned callback
    lives."""
    if not callable(function):
        raise TypeError(f"on_lost takes a function, not {type(function).__name__}")
    callback = Callback(function)
    guard.on_lost(callback.key)
    return callback


def keep(callbacks: list[Callback]) -> None:
    """Keeps the callbacks of a lost lease until each was called."""
    for callback in callbacks:
        _due[callback.key] = callback
        if callback.calls is None:
            _due.pop(callback.key, None)


def start() -> None:
    """Starts the event thread of this process."""
    global _thread
    _thread = threading.Thread(target=_run, name="leasehold-events", daemon=True)
    try:
        _thread.start()
    except RuntimeError as error:
        _thread = None
        # When the interpreter is shutting down, no listener is left. Each version of Python says so
        # in the text. Otherwise the process has too many threads, and the next verb tries again.
        if "at interpreter shutdown" not in str(error):
            raise


def join(seconds: float) -> None:
    """Waits for the end of the thread, after the native part has closed the queue of events."""
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join(seconds)


def _run() -> None:
    descriptor = _core.told_descriptor() if is_green() else None
    while (told := _core.next_told(descriptor is None)) is not None:
        items, dropped = told
        if dropped:
            _guarded(logger.warning, "%d events were dropped: on_event is too slow", dropped)
        for item in items:
            _guarded(_tell, item)
        if descriptor is not None:
            select.select([descriptor], [], [])


def _guarded(function: Callable[..., object], *arguments: object) -> None:
    """Calls a function. Its error is printed and does not end the thread: a filter or a handler of
    the logger may raise."""
    try:
        function(*arguments)
    except BaseException:
        traceback.print_exc()


def _tell(item: tuple[Any, ...]) -> None:
    kind, key, value = item[0], item[1], item[-1]
    callback = _due.get(key) or _callbacks.get(key)
    if kind == "event":
        value = Event(*value)
        if item[2]:
            _guarded(logger.warning, "%s", value.text)
    if callback is not None and callback.calls is not None:
        context, function = callback.calls
        if kind != "event":
            callback.calls = None
        _due.pop(key, None)
        try:
            if kind != "over":
                context.run(function, value)
        except BaseException:
            # Not even `sys.exit()` in a callback ends the thread, which also calls all others.
            logger.exception("a callback failed: %r", function)
