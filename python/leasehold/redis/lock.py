"""The lock of redis-py, with the renewal, the waits and the tokens of leasehold.

The keys are those of ``redis.lock.Lock``: old and new exclude each other.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from leasehold.blocking import Client
from leasehold.errors import LeaseholdError, LockTimeout
from leasehold.redis._common import (
    Base,
    Clients,
    LockError,
    LockNotOwnedError,
    refuse_token,
    translated,
)
from leasehold.redis._kept import KEPT

if TYPE_CHECKING:
    from typing_extensions import Self

    from leasehold.blocking_guard import Guard
    from leasehold.blocking_lock import Lock as Native

__all__ = ["Lock", "LockError", "LockNotOwnedError"]

logger = logging.getLogger("leasehold")

_CLIENTS = Clients(Client)


class Lock(Base):
    """As ``redis.lock.Lock``: the same arguments, keys, return values and exceptions.

    Also by ``client.lock(name, lock_class=Lock)``. ``local.token`` is the fencing token as bytes.
    """

    def _native(self) -> Native:
        client: Client = _CLIENTS.of(self.redis, self._url)
        return client.lock(self.name, **self._options())

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: None = None,
    ) -> bool:
        """Whether it was acquired. Asks again every 20 to 200 ms; ``sleep`` is ignored.

        Raises ``TypeError`` for a ``token``: the store gives it.
        """
        refuse_token(token)
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        try:
            guard: Guard | None
            if self.blocking if blocking is None else blocking:
                guard = self._native().acquire(limit)
            else:
                guard = self._native().try_acquire()
        except LockTimeout:
            return False
        except LeaseholdError as error:
            raise translated(error, self.name, "acquire") from error
        if guard is None:
            return False
        KEPT.add(guard, self.timeout)
        self._hold(guard)
        return True

    def release(self) -> None:
        """Lets go. Raises ``LockError`` if it is not held here, ``LockNotOwnedError`` if lost."""
        guard = self._let_go()
        try:
            guard.release()
        except LeaseholdError as error:
            raise translated(error, self.name, "release") from error
        finally:
            KEPT.remove(guard)

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds time, or replaces what is left by it; what is promised is never shortened."""
        guard = self._held("extend")
        try:
            guard.renew(self._longer(guard, additional_time, replace_ttl))
        except LeaseholdError as error:
            raise translated(error, self.name, "extend") from error
        return True

    def reacquire(self) -> Literal[True]:
        """Sets what is left back to ``timeout``; what is promised is never shortened."""
        guard = self._held("reacquire")
        try:
            guard.renew(self.timeout)
        except LeaseholdError as error:
            raise translated(error, self.name, "reacquire") from error
        return True

    def locked(self) -> bool:
        """Whether anybody holds it. Asks the server."""
        try:
            return not self._native().status().is_free
        except LeaseholdError as error:
            raise translated(error, self.name, "look at") from error

    def owned(self) -> bool:
        """Whether this lock holds it. Asks the server."""
        guard = self.local.guard
        if guard is None or not guard.is_held:
            return False
        try:
            holders = self._native().status().holders
        except LeaseholdError as error:
            raise translated(error, self.name, "look at") from error
        return any(holder.id == guard.holder for holder in holders)

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._not_in_time()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        try:
            self.release()
        except (LockError, LockNotOwnedError):
            if self.raise_on_release_error:
                raise
            logger.warning("%s: was no longer owned at the end of its block", self.name)
