"""The errors for `with` on async objects, and for `async with` on others. The methods that raise
them are hidden from type checkers, which then report the mistake themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

_ASYNC = "an object of an AsyncClient is entered by `async with`, not by `with`"
_PLAIN = "an object of a Client is entered by `with`, not by `async with`"


class OnlyAsync:
    """An object for `async with` only."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self, *_):
            raise TypeError(_ASYNC)

        __exit__ = __enter__


class OnlyPlain:
    """An object for `with` only."""

    __slots__ = ()

    if not TYPE_CHECKING:

        async def __aenter__(self, *_):
            raise TypeError(_PLAIN)

        __aexit__ = __aenter__
