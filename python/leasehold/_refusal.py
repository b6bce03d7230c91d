"""What each family says to the `with` of the other. Type checkers see that it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

_ASYNC = "what an AsyncClient gives is entered by `async with`, not by `with`"
_PLAIN = "what a Client gives is entered by `with`, not by `async with`"


class OnlyAsync:
    """What tasks enter."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self):
            raise TypeError(_ASYNC)

        def __exit__(self, *_):
            raise TypeError(_ASYNC)


class OnlyPlain:
    """What threads enter."""

    __slots__ = ()

    if not TYPE_CHECKING:

        async def __aenter__(self):
            raise TypeError(_PLAIN)

        async def __aexit__(self, *_):
            raise TypeError(_PLAIN)
