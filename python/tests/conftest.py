"""Stores to test with, and programs of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold import Client, Memory

PATIENCE = 60.0
"""Seconds after which a test gives up: a busy machine is slow."""


class Redis:
    """A server of its own, on a free port."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        program = os.environ.get("LEASEHOLD_TEST_SERVER", "redis-server")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory]
        quiet = ["--appendonly", "yes", "--save", "", "--loglevel", "warning"]
        self.process = subprocess.Popen([program, *options, *quiet], stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.end()


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """One that the test may kill."""
    server = Redis()
    yield server
    server.end()


@pytest.fixture(params=["memory", "file", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | Memory:
    if request.param == "memory":
        return Memory()
    if request.param == "file":
        return f"file:{tmp_path / 'locks.db'}"
    server: Redis = request.getfixturevalue("redis")
    return server.url


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"{request.node.name}/{os.getpid()}/{time.monotonic_ns()}"


@pytest.fixture
def client(store: str | Memory) -> Iterator[Client]:
    with Client(store) as client:
        yield client


Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs a program of its own, which must end well and complain of nothing."""

    def run(text: str, *words: str, code: int = 0, says: str | None = None) -> object:
        path = tmp_path / f"program{time.monotonic_ns()}.py"
        path.write_text(text)
        command = [sys.executable, "-W", "error", str(path), *words]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert ended.returncode == code, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
        assert ended.stderr == "", ended.stderr
        if says is not None:
            assert ended.stdout.strip() == says
        return ended

    return run  # type: ignore[return-value]


def eventually(what: Callable[[], object]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it has never become so"
        time.sleep(0.01)
