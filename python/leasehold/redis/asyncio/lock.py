"""The asyncio lock of redis-py, with the renewals, the waiting and the tokens of leasehold.

The keys are those of ``redis.asyncio.lock.Lock``, so old and new locks exclude each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from leasehold.aio import AsyncClient
from leasehold.redis._common import Base, Clients, LockError, LockNotOwnedError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError"]


class Lock(Base):
    """Like ``redis.asyncio.lock.Lock``: the same arguments, keys, return values and exceptions.

    ``client.lock(name, lock_class=Lock)`` makes one, too. ``local.token`` is the fencing token as
    bytes.
    """

    _clients = Clients(AsyncClient)

    async def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: None = None,
    ) -> bool:
        """Like ``acquire`` of ``leasehold.redis.lock.Lock``."""
        limit = self._limit(token, blocking_timeout)
        with self._acquiring(blocking) as waits:
            lock = self._native()
            return self._acquired(await (lock.acquire(limit) if waits else lock.try_acquire()))
        return False

    async def release(self) -> None:
        """Like ``release`` of ``leasehold.redis.lock.Lock``."""
        with self._releasing() as guard:
            await guard.release()

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Like ``extend`` of ``leasehold.redis.lock.Lock``."""
        with self._renewing("extend") as guard:
            await guard.renew(additional_time + (0 if replace_ttl else guard.validity))
        return True

    async def reacquire(self) -> Literal[True]:
        """Like ``reacquire`` of ``leasehold.redis.lock.Lock``."""
        with self._renewing("reacquire") as guard:
            await guard.renew(self.timeout)
        return True

    async def locked(self) -> bool:
        """Like ``locked`` of ``leasehold.redis.lock.Lock``."""
        with self._errors("look at"):
            return not (await self._native().status()).is_free

    async def owned(self) -> bool:
        """Like ``owned`` of ``leasehold.redis.lock.Lock``."""
        with self._errors("look at"):
            return self._may_own() and self._owns(await self._native().status())

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise self._not_in_time()

    async def __aexit__(self, *raised: Any) -> None:
        with self._leaving():
            await self.release()
