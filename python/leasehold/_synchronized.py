"""Makes the name of a lock from the arguments of a call."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from leasehold._options import text_of
from leasehold.errors import InvalidInput

L = TypeVar("L")


def chooser(
    lock: Callable[..., L],
    name: str | Callable[..., str],
    function: Callable[..., Any],
    options: Mapping[str, Any],
) -> Callable[..., L]:
    """A function that returns the lock of a call: one for all calls if the name is fixed."""
    name_of = namer(name, function)
    if name_of is None:
        fixed = lock(name, **options)
        return lambda *args, **kwargs: fixed
    return lambda *args, **kwargs: lock(name_of(*args, **kwargs), **options)


def namer(
    name: str | Callable[..., str], function: Callable[..., Any]
) -> Callable[..., str] | None:
    """A function that returns the name for a call, or ``None`` if the name is always ``name``."""
    if callable(name):
        return name
    text_of(name, (str,), "a name is str")
    fields = [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
    if not fields:
        return None
    signature = inspect.signature(function)
    takes_any = any(it.kind is it.VAR_KEYWORD for it in signature.parameters.values())
    for field in fields:
        argument = field.split(".")[0].split("[")[0]
        if argument not in signature.parameters and not takes_any:
            known = ", ".join(signature.parameters) or "none"
            raise InvalidInput(
                f"{name!r} names the argument {argument!r}, which {function.__qualname__} does "
                f"not have: it has {known}"
            )

    def of_call(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = dict(bound.arguments)
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                values.update(values.pop(parameter.name))
        return name.format(**values)

    return of_call


def check_plain(function: Callable[..., Any]) -> None:
    """Refuses a function whose work continues after its call has returned."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__qualname__} is async: use that of an AsyncClient")
    if inspect.isgeneratorfunction(function):
        raise TypeError(
            f"{function.__qualname__} is a generator, which runs after its call: use `with` in it"
        )


def check_async(function: Callable[..., Any]) -> None:
    """Refuses a function that is not async."""
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} is not async: use that of a Client")


def check_skip(timeout: object, skip: bool) -> None:
    """Refuses a limit together with ``skip``, which never waits."""
    if skip and timeout is not None:
        raise TypeError("a call with skip does not wait: leave out timeout or skip")
