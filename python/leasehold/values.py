"""Values that methods return. They are frozen, compare by value and pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from leasehold import _core

if TYPE_CHECKING:
    from leasehold._options import LossReason, Mode


@dataclass(frozen=True)
class Holder:
    """The holder of a lease. Durations are in seconds.

    The token of a fresh lease is ``None`` for the first 100 ms or so, on some stores.
    """

    id: str
    mode: Mode
    token: int | None
    host: str
    pid: int
    label: str | None
    held_for: float
    ttl_left: float


@dataclass(frozen=True)
class Status:
    """The holders of a name and the number of its waiters: a snapshot, which may be outdated.

    ``held_back`` describes the open PostgreSQL transactions that have passed the fence of a free
    name: until they end, nobody gets the name. With other stores it is empty.
    """

    holders: tuple[Holder, ...]
    waiting: int
    is_free: bool
    held_back: tuple[str, ...]


@dataclass(frozen=True)
class Leader:
    """The leader of an election: its value and its token."""

    value: str
    token: int


@dataclass(frozen=True)
class Event:
    """An event of a lease, of a call that requests a lease, or of the store.

    ``kind`` is the name of the event, such as ``granted`` or ``lost``; durations are in seconds.
    ``text`` describes the event in words.
    """

    kind: str
    name: str | None
    mode: Mode | None
    label: str | None
    token: int | None
    waited: float | None
    held: float | None
    reason: LossReason | None
    text: str


@final
@dataclass(frozen=True, init=False)
class Lease:
    """A lease that was taken out of its guard. ``str(lease)`` is its text for another process.

    Raises ``InvalidInput`` for a text that is not a lease. ``ttl`` is in seconds.
    """

    name: str
    token: int
    ttl: float
    _text: str

    def __init__(self, text: str) -> None:
        name, token, ttl = _core.parse_lease(text)
        for field, value in (("name", name), ("token", token), ("ttl", ttl), ("_text", text)):
            object.__setattr__(self, field, value)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Lease({self._text!r})"

    def __reduce__(self) -> tuple[type[Lease], tuple[str]]:
        return Lease, (self._text,)
