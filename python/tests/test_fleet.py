"""Programs in Python and the command in one queue, and locks of redis-py on the same keys."""

from __future__ import annotations

import sys
from pathlib import Path

import redis as driver

from conftest import Processes, Redis

TASK = """
import asyncio, sys
from leasehold import AsyncClient
async def main():
    async with AsyncClient(sys.argv[1]) as client, client.lock(sys.argv[2]) as guard:
        with open(sys.argv[3], "a") as file:
            file.write(f"task {guard.token}\\n")
asyncio.run(main())
"""

ROUNDS = 5
"""How often each of many processes adds one."""

ADDS = (
    """
import sys
import redis
from leasehold.redis.lock import Lock
kind, port, name, counter = sys.argv[1:5]
r = redis.Redis(port=int(port))
lock = r.lock(name, timeout=3600, sleep=0.01, lock_class=Lock if kind == "ours" else None)
assert isinstance(lock, Lock) == (kind == "ours")
"""
    + f"for _ in range({ROUNDS}):"
    + """
    with lock:
        seen = int(r.get(counter) or 0)
        r.ping()
        r.set(counter, seen + 1)
"""
)


def test_the_command_and_python_are_granted_in_the_order_in_which_they_asked(
    redis: Redis, command: str, name: str, tmp_path: Path, processes: Processes
) -> None:
    url, order = redis.patient_url, tmp_path / "order"
    asked = "command thread task command task thread command"
    told = processes.in_turn(command, url, name, order, asked, task=["-c", TASK, url])
    tokens = [token for _, token in told]
    assert tokens == sorted(set(tokens))


def test_processes_of_redis_py_and_of_ours_lose_no_update_on_one_key(
    redis: Redis, name: str, processes: Processes
) -> None:
    each, counter = 6, name + "/counter"
    for _ in range(each):
        for kind in ("ours", "theirs"):
            processes.start(sys.executable, "-c", ADDS, kind, str(redis.port), name, counter)
    processes.join()
    with driver.Redis(port=redis.port) as r:
        assert r.exists(name) == 0
        assert int(r.get(counter)) == 2 * each * ROUNDS
