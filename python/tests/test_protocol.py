"""A program that knows the protocol of docs/protocol.md and nothing else shares names with us."""

from __future__ import annotations

import sys
from pathlib import Path

import redis as driver

from conftest import Processes, Redis, eventually
from leasehold import Client

PROGRAM = str(Path(__file__).with_name("protocol_client.py"))


def number(token: int) -> int:
    """The number of the store in a token of ours: microseconds since 1970."""
    return (token >> 12) + 1_577_836_800_000_000


def test_it_stands_in_one_queue_with_the_command_and_with_us(
    own_redis: Redis, command: str, name: str, tmp_path: Path, processes: Processes
) -> None:
    url, order, own = own_redis.patient_url, tmp_path / "order", [PROGRAM, own_redis.url]
    asked = "protocol thread command protocol command thread protocol protocol"
    told = processes.in_turn(command, url, name, order, asked, protocol=own)
    numbers = [token if kind == "protocol" else number(token) for kind, token in told]
    assert numbers == sorted(set(numbers))
    with driver.Redis(port=own_redis.port) as r:
        assert r.keys() == [b"lh:%token"], "nothing else is left"


def test_one_that_dies_is_followed_by_the_next(
    own_redis: Redis, name: str, tmp_path: Path, processes: Processes
) -> None:
    url, order = own_redis.patient_url, tmp_path / "order"
    processes.start(sys.executable, PROGRAM, own_redis.url, name, str(order), "die")
    eventually(order.exists)
    with Client(url) as client, client.lock(name) as guard:
        (line,) = order.read_text().splitlines()
        assert number(guard.token) > int(line.split()[1])
        assert client.lock(name).status().holders[0].token == guard.token
