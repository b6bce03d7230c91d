"""The asyncio lock of redis-py, with the renewal, the waits and the tokens of leasehold.

The keys are those of ``redis.asyncio.lock.Lock``: old and new exclude each other.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from leasehold.aio import AsyncClient
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

    from leasehold.aio_guard import AsyncGuard
    from leasehold.aio_lock import AsyncLock as Native

__all__ = ["Lock", "LockError", "LockNotOwnedError"]

logger = logging.getLogger("leasehold")

_CLIENTS = Clients(AsyncClient)


class Lock(Base):
    """As ``redis.asyncio.lock.Lock``: the same arguments, keys, return values and exceptions.

    Also by ``client.lock(name, lock_class=Lock)``. ``local.token`` is the fencing token as bytes.
    """

    def _native(self) -> Native:
        client: AsyncClient = _CLIENTS.of(self.redis, self._url)
        return client.lock(self.name, **self._options())

    async def acquire(
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
            guard: AsyncGuard | None
            if self.blocking if blocking is None else blocking:
                guard = await self._native().acquire(limit)
            else:
                guard = await self._native().try_acquire()
        except LockTimeout:
            return False
        except LeaseholdError as error:
            raise translated(error, self.name, "acquire") from error
        if guard is None:
            return False
        KEPT.add(guard, self.timeout)
        self._hold(guard)
        return True

    async def release(self) -> None:
        """Lets go. Raises ``LockError`` if it is not held here, ``LockNotOwnedError`` if lost."""
        guard = self._let_go()
        try:
            await guard.release()
        except LeaseholdError as error:
            raise translated(error, self.name, "release") from error
        finally:
            KEPT.remove(guard)

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds time, or replaces what is left by it; what is promised is never shortened."""
        guard = self._held("extend")
        try:
            await guard.renew(self._longer(guard, additional_time, replace_ttl))
        except LeaseholdError as error:
            raise translated(error, self.name, "extend") from error
        return True

    async def reacquire(self) -> Literal[True]:
        """Sets what is left back to ``timeout``; what is promised is never shortened."""
        guard = self._held("reacquire")
        try:
            await guard.renew(self.timeout)
        except LeaseholdError as error:
            raise translated(error, self.name, "reacquire") from error
        return True

    async def locked(self) -> bool:
        """Whether anybody holds it. Asks the server."""
        try:
            return not (await self._native().status()).is_free
        except LeaseholdError as error:
            raise translated(error, self.name, "look at") from error

    async def owned(self) -> bool:
        """Whether this lock holds it. Asks the server."""
        guard = self.local.guard
        if guard is None or not guard.is_held:
            return False
        try:
            holders = (await self._native().status()).holders
        except LeaseholdError as error:
            raise translated(error, self.name, "look at") from error
        return any(holder.id == guard.holder for holder in holders)

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
        try:
            await self.release()
        except (LockError, LockNotOwnedError):
            if self.raise_on_release_error:
                raise
            logger.warning("%s: was no longer owned at the end of its block", self.name)
