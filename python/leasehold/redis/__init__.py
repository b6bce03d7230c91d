"""The lock of redis-py over leasehold: ``from leasehold.redis.lock import Lock``."""
