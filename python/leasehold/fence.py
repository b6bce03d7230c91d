"""Guarded writes: what the lock protects refuses a holder that was overtaken.

A lease cannot stop a process that slept through its end. The resource that it writes to can, if it
remembers the highest token that it has seen, and refuses lower ones.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from leasehold import _core

if TYPE_CHECKING:
    from leasehold._held import _Held

__all__ = [
    "HEADER",
    "MYSQL",
    "POSTGRESQL",
    "SQLITE",
    "Dialect",
    "Fences",
    "from_header",
    "to_header",
]

HEADER: Final[str] = _core.header()
"""The HTTP header of a token and its lock. A service answers an overtaken one with 409."""


def to_header(guard: _Held) -> str:
    """The value of the header: the token of a guard, and the name of its lock."""
    return _core.to_header(guard.name, guard.token)


def from_header(text: str) -> tuple[str, int]:
    """The name and the token out of a header. Raises ``InvalidInput``: answer 400."""
    return _core.from_header(text)


@final
class Fences:
    """The highest token of each lock that a service of one process has seen.

    It has its own lock, so threads may share it.
    """

    __slots__ = ("_mutex", "_newest")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._newest: dict[str, int] = {}

    def install(self, name: str, token: int) -> None:
        """Refuses lower tokens from now on. Raises ``Fenced`` if a higher one was seen: 409."""
        with self._mutex:
            self._newest[name] = _core.check_fence(name, token, self._newest.get(name))


@final
@dataclass(frozen=True)
class Dialect:
    """Statements for a table in an SQL database that keeps the highest token of each lock.

    In one transaction: ``install`` (name, token); then ``newest`` (name), and unless that is the
    own token, roll back; else read, decide and write, and commit. ``table`` is run once.
    """

    table: str
    install: str
    newest: str


MYSQL: Final = Dialect(*_core.sql("mysql"))
POSTGRESQL: Final = Dialect(*_core.sql("postgresql"))
SQLITE: Final = Dialect(*_core.sql("sqlite"))
