"""The asyncio lock of redis-py over leasehold, in ``leasehold.redis.asyncio.lock``."""
