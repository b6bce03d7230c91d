"""What each family says to the `with` of the other."""

from __future__ import annotations

from typing import Any, NoReturn

_ASYNC = "what an AsyncClient gives is entered by `async with`, not by `with`"
_PLAIN = "what a Client gives is entered by `with`, not by `async with`"


class OnlyAsync:
    """What tasks enter."""

    __slots__ = ()

    def __enter__(self) -> NoReturn:
        raise TypeError(_ASYNC)

    def __exit__(self, *_: object) -> None:
        raise TypeError(_ASYNC)


class OnlyPlain:
    """What threads enter."""

    __slots__ = ()

    async def __aenter__(self) -> Any:
        raise TypeError(_PLAIN)

    async def __aexit__(self, *_: object) -> None:
        raise TypeError(_PLAIN)
