"""Distributed locks with fencing tokens: mutex, read/write lock, semaphore, election.

``Client`` is for threads and processes. It connects when it is first used, waits in line, renews
what it holds, and says when it is lost.
"""

from leasehold import fence
from leasehold._core import Memory
from leasehold._core import version as _version
from leasehold._options import LossReason, Mode, Options, Span
from leasehold.blocking import Client, Lock, RWLock, Semaphore
from leasehold.blocking_guard import Guard, Leadership
from leasehold.blocking_others import Admin, Election, Job
from leasehold.errors import (
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
    WouldDeadlock,
)
from leasehold.values import Event, Holder, Leader, Lease, Status

__version__: str = _version()

__all__ = [
    "Admin",
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
    "WouldDeadlock",
    "__version__",
    "fence",
]

# One public place for each name: tracebacks, pickles and `help` say it.
for _name in __all__:
    _found = globals()[_name]
    if isinstance(_found, type) and _found.__module__.startswith("leasehold."):
        _found.__module__ = "leasehold"
del _name, _found
