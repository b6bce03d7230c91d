"""Options of leases, which are checked when they are given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from leasehold import _core

Span: TypeAlias = float | timedelta
"""Seconds, or a ``timedelta``. Returned durations are seconds as ``float``."""

Mode: TypeAlias = Literal["exclusive", "shared", "permits"]
LossReason: TypeAlias = Literal[
    "closed", "expired", "held_too_long", "revoked", "vanished", "released", "forked"
]


class Options(TypedDict, total=False):
    """The options of every lock. The options of a client are the defaults of its locks.

    - ``ttl``: how long the store keeps the lease without a renewal, 0.1 s to 24 h. Default: 30 s.
    - ``renew``: renew the lease every third of the ttl while the guard lives. Default:
      ``True``. Without renewal, a grant that leaves less than half of the ttl is given back.
    - ``max_hold``: the lease is lost after this time, even if its holder is healthy.
    - ``min_hold``: the name stays taken for at least this long from the grant.
    - ``once_per``: raise ``AlreadyDone`` if a run has succeeded that began less than this long ago,
      on any machine. A run succeeds if its block ends without an exception, or by ``guard.done()``.
    - ``label``: a text that others see with the holder.
    """

    ttl: Span
    renew: bool
    max_hold: Span | None
    min_hold: Span | None
    once_per: Span | None
    label: str | None


def check(given: Mapping[str, Any]) -> None:
    """Refuses an unknown option, and a value of a wrong type."""
    unknown = given.keys() - Options.__annotations__.keys()
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise TypeError(f"{min(unknown)!r} is no option of a lease: there are {known}")
    if not isinstance(given.get("renew", True), bool):
        raise TypeError(f"renew is True or False, not {given['renew']!r}")
    label = given.get("label")
    if not (label is None or isinstance(label, str)):
        raise TypeError(f"label is text or None, not {type(label).__name__}")
    if "ttl" in given and given["ttl"] is None:
        raise TypeError("ttl is seconds or a timedelta, not None: leave it out for 30 s")


def native(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> _core.Options:
    """The options of a lock: its own, then those of its client for options that it does not set."""
    check(own)
    return _core.Options(**{**defaults, **own})


def text_of(value: object, kinds: tuple[type, ...], what: str) -> str:
    """The text of a value of one of these types. Refuses others."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{what}, not {type(value).__name__}")
    return str(value)
