"""The end of a program releases its leases, ends its waits, and prints no complaints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE, Program, Redis, eventually, finished
from leasehold import Client

BEGIN = """
import os, sys, threading, time
from leasehold import *
client = Client(sys.argv[1])
name = sys.argv[2]
"""

ENDINGS = {
    "the_end_of_the_program": "",
    "sys_exit": "sys.exit(0)",
    "a_global_reference": "import builtins; builtins.kept = guard",
    "a_daemon_thread_that_waits": """
threading.Thread(target=client.lock(name).acquire, daemon=True).start()
time.sleep(0.1)
""",
    "daemon_threads_that_work": """
def work(number):
    while True:
        with client.lock(f"{name}/{number}"):
            pass
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(0.2)
""",
    "tasks_that_hold_and_wait": """
import asyncio
tasks = AsyncClient(sys.argv[1])
async def main():
    global kept
    kept = await tasks.lock(name + "/task").acquire()
    asyncio.create_task(tasks.lock(name).acquire())
    await asyncio.sleep(0.05)
asyncio.run(main())
""",
    "a_callback": "guard.on_lost(lambda reason: time.sleep(0.01))",
    "an_exit_handler_of_its_own": "import atexit; atexit.register(client.close)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_held_is_given_back_after(
    ending: str, redis: Redis, program: Program, name: str
) -> None:
    quiet = """
import logging
threading.excepthook = lambda args: None
logging.getLogger("leasehold").addHandler(logging.NullHandler())
"""
    program(
        BEGIN + quiet + "guard = client.lock(name).acquire()\n" + ENDINGS[ending], redis.url, name
    )
    with Client(redis.url) as client:
        assert client.lock(name).status().is_free


def test_an_exception_that_ends_the_program_gives_back(redis: Redis, name: str) -> None:
    text = BEGIN + "guard = client.lock(name).acquire()\nraise KeyError(name)\n"
    ended = finished(sys.executable, "-c", text, redis.url, name)
    assert ended.returncode == 1 and ended.stderr.strip().splitlines()[-1].startswith("KeyError")
    with Client(redis.url) as client:
        assert client.lock(name).status().is_free


def test_a_store_that_is_away_holds_the_exit_up_for_a_moment(own_redis: Redis, name: str) -> None:
    text = BEGIN + "guard = client.lock(name).acquire()\nprint('held', flush=True)\ninput()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", text, own_redis.url, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "held\n"
    os.kill(own_redis.process.pid, signal.SIGSTOP)
    try:
        process.communicate("\n", timeout=PATIENCE)
        assert process.returncode == 0
    finally:
        os.kill(own_redis.process.pid, signal.SIGCONT)


def test_a_killed_program_leaves_its_lease_to_the_ttl(redis: Redis, name: str) -> None:
    text = BEGIN + "guard = client.lock(name, ttl=0.5).acquire()\nos.kill(os.getpid(), 9)\n"
    ended = finished(sys.executable, "-c", text, redis.url, name)
    assert ended.returncode == -signal.SIGKILL
    with Client(redis.url) as client:
        eventually(lambda: client.lock(name).status().is_free)


def test_importing_begins_nothing(program: Program) -> None:
    program(
        """
import os, sys, threading
import leasehold
client = leasehold.Client("redis://127.0.0.1:1/")
lock = client.lock("a")
assert threading.active_count() == 1
assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")
assert "asyncio" not in sys.modules
"""
    )
