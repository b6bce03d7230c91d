"""What both families of clients are."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leasehold import _core, _events, _options, _process
from leasehold._entered import Holds
from leasehold._options import Options, Span

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from leasehold.values import Event

__all__ = ["_Client", "_process"]

_VARIABLE = "LEASEHOLD_STORE"


class _Client:
    """Gives locks. Connects when it is first used; nothing begins before."""

    __slots__ = ("__weakref__", "_given", "_holds", "_native")

    def __init__(
        self,
        store: str | _core.Memory | None = None,
        *,
        on_event: Callable[[Event], object] | None = None,
        slice: Span = 0.005,
        **defaults: Unpack[Options],
    ) -> None:
        """``store`` is a URL, a ``Memory``, or ``None`` for that in ``$LEASEHOLD_STORE``.

        ``on_event`` is told of every event, in a thread for that. ``slice`` is for how long a
        lease goes from caller to caller of this client. ``defaults`` are those of its locks.
        Raises ``InvalidInput`` for a URL or a value that is wrong, ``TypeError`` for a wrong type.
        """
        if not (on_event is None or callable(on_event)):
            raise TypeError(f"on_event is a function or None, not {type(on_event).__name__}")
        if store is None:
            store = os.environ.get(_VARIABLE) or None
        options = _options.native({}, defaults)
        number = _events.listen(on_event)
        wants_all = on_event is not None
        if wants_all:
            weakref.finalize(self, _events.forget, number).atexit = False
        self._native = _core.NativeClient(store, options, slice, number, wants_all)
        self._given = (store, on_event, slice, dict(defaults))
        self._holds = Holds()

    def _options(self, own: dict[str, Any]) -> _core.Options:
        return _options.native(self._given[3], own)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._native.store!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _remake, (type(self), *self._given)


def _remake(
    kind: type[_Client], store: Any, on_event: Any, slice: Span, defaults: dict[str, Any]
) -> _Client:
    return kind(store, on_event=on_event, slice=slice, **defaults)


Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""How something is made of what is before it: a method, and its arguments."""


def follow(client: _Client, steps: tuple[Step, ...]) -> Any:
    """Makes a lock anew, from a client and the steps to it."""
    made: Any = client
    for name, args, options in steps:
        made = getattr(made, name)(*args, **options)
    return made


class Made:
    """What a client makes: it pickles as the client and the steps from it."""

    __slots__ = ("__weakref__", "_client", "_steps")

    def __init__(self, client: Any, steps: tuple[Step, ...]) -> None:
        self._client = client
        self._steps = steps

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return follow, (self._client, self._steps)
