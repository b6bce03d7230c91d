"""The errors of this package. All of them pickle, and their messages are one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold._options import LossReason
    from leasehold.values import Holder


class LeaseholdError(Exception):
    """The base class of all errors of this package.

    ``name`` is the lock of the failed call, if there is one. ``is_transient`` says whether the same
    call may succeed later without any change on this side.
    """

    name: str | None = None
    is_transient: bool = False


class LockTimeout(LeaseholdError, TimeoutError):
    """The limit of a wait was reached; no lease is held.

    ``waited`` is in seconds. ``holder`` is a holder at the end of the wait, if the store could name
    one. ``others`` is the number of further holders. ``own`` is true if the holder is the client
    that waited.
    """

    is_transient: bool = True
    waited: float = 0.0
    holder: Holder | None = None
    others: int = 0
    own: bool = False


class AlreadyDone(LeaseholdError):
    """A run has succeeded that began less than ``once_per`` ago: there is nothing to do.

    ``token``, ``host``, ``pid`` and ``label`` are those of that run. ``ended_ago``, and ``next_in``
    until a run may begin again, are in seconds.
    """

    is_transient: bool = True
    token: int = 0
    host: str = ""
    pid: int = 0
    label: str | None = None
    ended_ago: float = 0.0
    next_in: float = 0.0


class LeaseLost(LeaseholdError):
    """The lease is no longer held: stop the work that it covered."""

    token: int = 0
    reason: LossReason = "expired"


class NotAdopted(LeaseholdError):
    """The lease cannot be adopted: it has ended, or was adopted before. No lease is held."""

    token: int = 0
    reason: LossReason = "vanished"


class Fenced(LeaseholdError):
    """The token of a write is lower than ``newest``: stop, a newer holder is at work."""

    token: int = 0
    newest: int = 0


class InvalidInput(LeaseholdError, ValueError):
    """A name, a URL or an option was refused before anything was sent."""


class ClientClosed(LeaseholdError, RuntimeError):
    """The client was closed, or the program is ending."""


class NotOwner(LeaseholdError, RuntimeError):
    """The guard belongs to the parent of this forked process."""


class StoreError(LeaseholdError):
    """The store refused. ``kind`` is one of a few words, such as ``full`` or ``mismatch``."""

    kind: str = ""


class StoreUnavailable(StoreError, ConnectionError):
    """No answer, no connection, no quorum, or a quarantine. The trouble may pass by itself."""

    is_transient: bool = True


class Indeterminate(StoreUnavailable):
    """The request was sent and no answer came.

    A lease may exist for ``settles_within`` seconds at most.
    """

    settles_within: float = 0.0


class StoreDenied(StoreError, PermissionError):
    """Credentials, an access rule or a file mode forbid the call."""
