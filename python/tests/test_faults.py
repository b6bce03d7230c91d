"""Tests of locks while their server is killed, stopped, cut off or replaced."""

from __future__ import annotations

import pytest

from conftest import PATIENCE, Redis, eventually
from leasehold import Client, Event, LeaseLost, StoreUnavailable

TTL = 9.0
"""A ttl whose third is longer than a server's restart on a busy machine."""


def kinds(told: list[Event]) -> list[str]:
    return [event.kind for event in told]


def test_a_lease_outlives_a_server_that_is_killed_and_returns(own_redis: Redis, name: str) -> None:
    told: list[Event] = []
    with Client(own_redis.url, on_event=told.append) as client:
        with client.lock(name, ttl=TTL) as guard:
            own_redis.stop()
            eventually(lambda: "overdue" in kinds(told))
            assert guard.is_held and guard.loss is None
            own_redis.start()
            late = kinds(told).index("overdue")
            eventually(lambda: "renewed" in kinds(told)[late:])
            with Client(own_redis.url) as other:
                assert other.lock(name).try_acquire() is None
            guard.ensure_held()
            # This connects again, if that is still to do: the release is then answered.
            client.lock(f"{name}/other").acquire().release()
        assert client.lock(name).status().is_free
    assert "lost" not in kinds(told)


def test_a_server_that_stays_away_is_a_loss_and_the_client_goes_on_after_it(
    own_redis: Redis, name: str
) -> None:
    reasons: list[str] = []
    with Client(own_redis.url) as client:
        with pytest.raises(LeaseLost), client.lock(name, ttl=1) as guard:
            guard.on_lost(reasons.append)
            own_redis.stop()
            assert guard.wait_lost(PATIENCE) == "expired"
            assert not guard.is_held and guard.validity == 0
        eventually(lambda: reasons == ["expired"])
        own_redis.start()
        with client.lock(name).acquire(timeout=PATIENCE) as again:
            assert again.token > guard.token


def test_a_server_that_is_silent_is_told_and_nothing_stays(own_redis: Redis, name: str) -> None:
    with Client(own_redis.url + "?timeout=200ms") as client:
        client.lock(name).acquire().release()
        with own_redis.paused(), pytest.raises(StoreUnavailable) as caught:
            client.lock(name).try_acquire()
        assert caught.value.is_transient
        eventually(lambda: client.lock(name).status().is_free)
