"""Signals end a wait of the main thread, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from conftest import PATIENCE, Redis, eventually
from leasehold import Client

WAITS = """
import os, signal, sys
from leasehold import Client
client = Client(sys.argv[1])
"""

BY_CONTROL_C = """
# A shell makes its background programs ignore this signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    client.lock(sys.argv[2]).acquire()
except KeyboardInterrupt:
    client.lock(sys.argv[2] + "/another").acquire().release()
    print("interrupted", flush=True)
"""

BY_HANDLER = """
handled = []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
def give_up(*_):
    raise TimeoutError("enough")
signal.signal(signal.SIGINT, give_up)
os.kill(os.getpid(), signal.SIGUSR1)
try:
    client.lock(sys.argv[2]).acquire()
except TimeoutError as error:
    print(error, len(handled), flush=True)
"""


def told(text: str, redis: Redis, name: str) -> str:
    with Client(redis.url) as client, client.lock(name) as guard:
        words, pipe = [sys.executable, "-c", WAITS + text, redis.url, name], subprocess.PIPE
        process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
        eventually(lambda: client.lock(name).status().waiting == 1)
        os.kill(process.pid, signal.SIGINT)
        try:
            out, complaints = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        assert (process.returncode, complaints) == (0, "")
        eventually(lambda: client.lock(name).status().waiting == 0)
        assert guard.is_held
    return out.strip()


def test_control_c_leaves_the_queue_and_the_client_goes_on(redis: Redis, name: str) -> None:
    assert told(BY_CONTROL_C, redis, name) == "interrupted"


def test_handlers_run_and_what_they_raise_ends_the_wait(redis: Redis, name: str) -> None:
    assert told(BY_HANDLER, redis, name) == "enough 1"
