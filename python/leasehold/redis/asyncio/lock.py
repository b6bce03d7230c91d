"""The asyncio lock of redis-py, with the renewal, the waits and the tokens of leasehold.

The keys are those of ``redis.asyncio.lock.Lock``: old and new exclude each other.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Literal

from leasehold.aio import AsyncClient
from leasehold.errors import LockTimeout
from leasehold.redis._common import Base, Clients, LockError, LockNotOwnedError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError"]


class Lock(Base):
    """As ``redis.asyncio.lock.Lock``: the same arguments, keys, return values and exceptions.

    Also by ``client.lock(name, lock_class=Lock)``. ``local.token`` is the fencing token as bytes.
    """

    _clients = Clients(AsyncClient)

    async def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: None = None,
    ) -> bool:
        """As that of ``leasehold.redis.lock.Lock``."""
        limit = self._limit(token, blocking_timeout)
        with self._errors("acquire"):
            lock = self._native()
            if not self._waits(blocking):
                return self._acquired(await lock.try_acquire())
            try:
                return self._acquired(await lock.acquire(limit))
            except LockTimeout:
                return False

    async def release(self) -> None:
        """As that of ``leasehold.redis.lock.Lock``."""
        with self._releasing() as guard:
            await guard.release()

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """As that of ``leasehold.redis.lock.Lock``."""
        with self._renewing("extend") as guard:
            await guard.renew(self._longer(guard, additional_time, replace_ttl))
        return True

    async def reacquire(self) -> Literal[True]:
        """As that of ``leasehold.redis.lock.Lock``."""
        with self._renewing("reacquire") as guard:
            await guard.renew(self.timeout)
        return True

    async def locked(self) -> bool:
        """As that of ``leasehold.redis.lock.Lock``."""
        with self._errors("look at"):
            return not (await self._native().status()).is_free

    async def owned(self) -> bool:
        """As that of ``leasehold.redis.lock.Lock``."""
        with self._errors("look at"):
            return self._may_own() and self._owns(await self._native().status())

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise self._not_in_time()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        with self._leaving():
            await self.release()
