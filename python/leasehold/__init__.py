"""Distributed locks with fencing tokens: mutex, read/write lock, semaphore, election.

``Client`` is for threads and processes, ``AsyncClient`` for asyncio. Both connect on their first
use, wait in line, renew the leases they hold, and report a lost lease.
"""

from typing import TYPE_CHECKING, Any

from leasehold import fence
from leasehold._core import Memory
from leasehold._core import version as _version
from leasehold._options import LossReason, Mode, Options, Span
from leasehold.blocking import Client
from leasehold.blocking_guard import Guard, Leadership
from leasehold.blocking_lock import Lock, RWLock, Semaphore
from leasehold.blocking_others import Admin, Election, Job
from leasehold.errors import (
    AlreadyDone,
    ClientClosed,
    Fenced,
    Indeterminate,
    InvalidInput,
    LeaseholdError,
    LeaseLost,
    LockTimeout,
    NotAdopted,
    NotOwner,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from leasehold.values import Event, Holder, Leader, Lease, Status

if TYPE_CHECKING:
    from leasehold.aio import AsyncClient
    from leasehold.aio_guard import AsyncGuard, AsyncLeadership
    from leasehold.aio_lock import Acquiring, AsyncLock, AsyncRWLock, AsyncSemaphore
    from leasehold.aio_others import AsyncAdmin, AsyncElection, AsyncJob

__version__: str = _version()

__all__ = [
    "Acquiring",
    "Admin",
    "AlreadyDone",
    "AsyncAdmin",
    "AsyncClient",
    "AsyncElection",
    "AsyncGuard",
    "AsyncJob",
    "AsyncLeadership",
    "AsyncLock",
    "AsyncRWLock",
    "AsyncSemaphore",
    "Client",
    "ClientClosed",
    "Election",
    "Event",
    "Fenced",
    "Guard",
    "Holder",
    "Indeterminate",
    "InvalidInput",
    "Job",
    "Leader",
    "Leadership",
    "Lease",
    "LeaseLost",
    "LeaseholdError",
    "Lock",
    "LockTimeout",
    "LossReason",
    "Memory",
    "Mode",
    "NotAdopted",
    "NotOwner",
    "Options",
    "RWLock",
    "Semaphore",
    "Span",
    "Status",
    "StoreDenied",
    "StoreError",
    "StoreUnavailable",
    "__version__",
    "fence",
]

# These names need asyncio, so their modules are imported only on request.
_LAZY = [name for name in __all__ if name == "Acquiring" or name.startswith("Async")]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'leasehold' has no attribute {name!r}")
    from leasehold import aio, aio_guard, aio_lock, aio_others

    found = vars(aio) | vars(aio_guard) | vars(aio_lock) | vars(aio_others)
    globals().update({lazy: _public(found[lazy]) for lazy in _LAZY})
    return found[name]


def _public(found: Any) -> Any:
    """Sets the public module of a class, which tracebacks, pickles and `help` show."""
    if isinstance(found, type) and found.__module__.startswith("leasehold."):
        found.__module__ = "leasehold"
    return found


for _name in __all__:
    if _name not in _LAZY:
        _public(globals()[_name])
del _name
