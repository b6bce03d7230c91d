"""The lock of redis-py, with the renewals, the waiting and the tokens of leasehold.

The keys are those of ``redis.lock.Lock``, so old and new locks exclude each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from leasehold.blocking import Client
from leasehold.redis._common import Base, Clients, LockError, LockNotOwnedError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError"]


class Lock(Base):
    """Like ``redis.lock.Lock``: the same arguments, keys, return values and exceptions.

    ``client.lock(name, lock_class=Lock)`` makes one, too. ``local.token`` is the fencing token as
    bytes.
    """

    _clients = Clients(Client)

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: None = None,
    ) -> bool:
        """Returns whether the lock was acquired. Asks every 20 to 200 ms; ``sleep`` is ignored.

        Raises ``TypeError`` for a ``token``: the store issues the tokens.
        """
        limit = self._limit(token, blocking_timeout)
        with self._acquiring(blocking) as waits:
            lock = self._native()
            return self._acquired(lock.acquire(limit) if waits else lock.try_acquire())
        return False

    def release(self) -> None:
        """Releases the lock. Raises ``LockError`` if this object does not hold it,
        ``LockNotOwnedError`` if it was lost."""
        with self._releasing() as guard:
            guard.release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds to the remaining time, or replaces it. Time that the store has promised is never
        shortened."""
        with self._renewing("extend") as guard:
            guard.renew(additional_time + (0 if replace_ttl else guard.validity))
        return True

    def reacquire(self) -> Literal[True]:
        """Sets the remaining time to ``timeout``, if that is later."""
        with self._renewing("reacquire") as guard:
            guard.renew(self.timeout)
        return True

    def locked(self) -> bool:
        """Returns whether anybody holds the lock. Asks the server."""
        with self._errors("look at"):
            return not (self._native().status()).is_free

    def owned(self) -> bool:
        """Returns whether this object holds the lock. Asks the server."""
        with self._errors("look at"):
            return self._may_own() and self._owns(self._native().status())

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._not_in_time()

    def __exit__(self, *raised: Any) -> None:
        with self._leaving():
            self.release()
