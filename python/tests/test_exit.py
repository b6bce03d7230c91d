"""The end of a program releases its leases, ends its waits, and prints no complaints."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import PATIENCE, Program, Redis, finished
from leasehold import Client

BEGIN = """
import logging, os, signal, sys, threading, time, warnings
from leasehold import *
client = Client(sys.argv[1])
name = sys.argv[2]
"""

HOLDS = (
    BEGIN
    + """
threading.excepthook = lambda args: None
warnings.simplefilter("ignore", DeprecationWarning)
logging.getLogger("leasehold").addHandler(logging.NullHandler())
guard = client.lock(name).acquire()
"""
)

FORK = """
guard.release()
def child(end):
    pid = os.fork()
    if pid == 0:
        globals()["guard"] = client.lock(name).acquire()
        end(0)
    os.waitpid(pid, 0)
"""

POOL = """
def hold(name, seconds):
    globals()["guard"] = client.lock(name).acquire()
    time.sleep(seconds)  # a worker without work may be asked to end
guard.release()
import multiprocessing
pool = multiprocessing.get_context("fork").Pool(1)
pool.apply_async(hold, (name, {}))
while client.lock(name).status().is_free: time.sleep(0.01)
"""

KILL = "os.kill(os.getpid(), signal.SIG{0}); time.sleep(60)"

LATER = {
    "os_exit": (0, "os._exit(0)"),
    "SIGTERM": (-15, KILL.format("TERM")),
    "SIGHUP": (-1, KILL.format("HUP")),
    "SIGKILL": (-9, KILL.format("KILL")),
    "a_forked_child_by_os_exit": (0, FORK + "child(os._exit)"),
    "a_pool_that_is_terminated": (0, POOL.format(60) + "pool.terminate(); pool.join()"),
}
"""The ends after which a lease ends with its ttl."""

FAILS = {
    "an_exception": (1, "raise KeyError(name)"),
    "SIGINT": (-2, "signal.signal(2, signal.default_int_handler)\n" + KILL.format("INT")),
}
"""The ends of which Python prints a traceback."""

ENDINGS = {
    "the_end_of_the_program": "",
    "sys_exit": "sys.exit(0)",
    "SIGTERM_with_a_handler": "signal.signal(15, lambda *_: sys.exit(0))\n" + KILL.format("TERM"),
    "a_forked_child_by_sys_exit": FORK + "child(sys.exit)",
    "a_pool_that_is_closed": POOL.format(0) + "pool.close(); pool.join()",
    "a_thread_that_ends": """
import warnings
warnings.simplefilter("ignore", ResourceWarning)
guard.release()
def work():
    guard = client.lock(name).acquire()
thread = threading.Thread(target=work)
thread.start()
thread.join()
client.lock(name).acquire(timeout=60).release()
os._exit(0)
""",
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
def test_what_is_held_is_free_after(ending: str, redis: Redis, program: Program, name: str) -> None:
    program(HOLDS + ENDINGS[ending], redis.url, name)
    with Client(redis.url) as client:
        assert client.lock(name).status().is_free


@pytest.mark.parametrize("ending", LATER | FAILS)
def test_only_ends_by_which_python_cleans_up_release(ending: str, redis: Redis, name: str) -> None:
    code, text = (LATER | FAILS)[ending]
    ended = finished(sys.executable, "-c", HOLDS + text, redis.url, name)
    assert ended.returncode == code, ended.stderr
    with Client(redis.url) as client:
        assert client.lock(name).status().is_free == (ending in FAILS)


def test_a_store_that_is_away_holds_the_exit_up_for_a_moment(own_redis: Redis, name: str) -> None:
    text = BEGIN + "guard = client.lock(name).acquire()\nprint('held', flush=True)\ninput()\n"
    words, pipe = [sys.executable, "-c", text, own_redis.url, name], subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with own_redis.paused():
        process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0


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
