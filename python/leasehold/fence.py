"""Fenced writes: the protected resource refuses a holder that was overtaken.

A lease cannot stop a process that slept through its end. The resource can stop it, if it remembers
the highest token it has seen, and refuses writes with lower tokens.
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
"""The HTTP header for a token and its lock. A service answers 409 to an overtaken token."""


def to_header(guard: _Held) -> str:
    """The value of the header, with the token of a guard and the name of its lock."""
    return _core.to_header(guard.name, guard.token)


def from_header(text: str) -> tuple[str, int]:
    """Parses the name and the token from the header. On ``InvalidInput``, answer 400."""
    return _core.from_header(text)


@final
class Fences:
    """The highest token of each lock that a service of one process has seen.

    Threads can share this object, because it contains a mutex.
    """

    __slots__ = ("_mutex", "_newest")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._newest: dict[str, int] = {}

    def install(self, name: str, token: int) -> None:
        """Refuses lower tokens from now on. Raises ``Fenced`` if a higher token was seen; then
        answer 409."""
        with self._mutex:
            self._newest[name] = _core.check_fence(name, token, self._newest.get(name))


@final
@dataclass(frozen=True)
class Dialect:
    """SQL statements for a table that keeps the highest token of each lock.

    Run ``table`` once. Then, in each transaction, run ``install`` (name, token) and ``newest``
    (name). If ``newest`` returns a token that is not your own, roll back; else read, decide,
    write and commit.
    """

    table: str
    install: str
    newest: str


MYSQL: Final = Dialect(*_core.sql("mysql"))
POSTGRESQL: Final = Dialect(*_core.sql("postgresql"))
SQLITE: Final = Dialect(*_core.sql("sqlite"))
