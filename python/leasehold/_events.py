"""The event thread. Only this thread calls the callbacks for events and losses, so a callback may
do anything."""

from __future__ import annotations

import itertools
import logging
import select
import threading
import traceback
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
_listeners: dict[int, tuple[Context, Callable[[Event], object]]] = {}
_callbacks: dict[int, tuple[Context, Callable[[LossReason], object]]] = {}
_thread: threading.Thread | None = None


def listen(on_event: Callable[[Event], object] | None) -> int:
    """Registers a listener, and returns the number of its client. The listener is called in a copy
    of the present context."""
    number = next(_numbers)
    if on_event is not None:
        _listeners[number] = (copy_context(), on_event)
    return number


def forget(number: int) -> None:
    """Removes the listener of a client."""
    _listeners.pop(number, None)


def on_lost(guard: _core.NativeGuard, callback: Callable[[LossReason], object]) -> None:
    """Registers a callback, which is called once if the lease is lost."""
    if not callable(callback):
        raise TypeError(f"on_lost takes a function, not {type(callback).__name__}")
    key = next(_numbers)
    _callbacks[key] = (copy_context(), callback)
    try:
        guard.on_lost(key)
    except BaseException:
        del _callbacks[key]
        raise


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
    kind, key = item[0], item[1]
    if kind == "event":
        event = Event(*item[3])
        if item[2]:
            _guarded(logger.warning, "%s", event.text)
        _call(_listeners.get(key), event)
    elif kind == "lost":
        _call(_callbacks.pop(key, None), item[2])
    else:
        _callbacks.pop(key, None)


def _call(listener: tuple[Context, Callable[[Any], object]] | None, value: object) -> None:
    if listener is None:
        return
    context, callback = listener
    try:
        context.run(callback, value)
    except BaseException:
        # Not even `sys.exit()` in a callback ends the thread, which also calls all others.
        logger.exception("a callback failed: %r", callback)
