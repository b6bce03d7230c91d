"""Fixtures: stores to test with, and separate programs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leasehold import Client, Guard, Memory

PATIENCE = 300.0
"""Seconds after which a test gives up, generous for a busy machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "how often the tests for leaks acquire and release in each way"
    parser.addoption("--pairs", type=int, default=4_000, help=text)


class Redis:
    """A private server, on a free port."""

    def __init__(self, *words: str) -> None:
        self.directory = tempfile.mkdtemp()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.patient_url = f"{self.url}?timeout=20s"
        self.words = words or ("--appendonly", "yes", "--save", "")
        self.start()

    def start(self) -> None:
        program = os.environ.get("LEASEHOLD_TEST_SERVER", "redis-server")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory]
        command = [program, *self.words, *options, "--loglevel", "warning"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with socket.socket() as asked:
            eventually(lambda: asked.connect_ex(("127.0.0.1", self.port)) == 0)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def forward(source: socket.socket, sink: socket.socket) -> None:
    """Sends on what a socket receives, and its end."""
    with contextlib.suppress(OSError):
        while received := source.recv(65536):
            sink.sendall(received)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


THREAD = """
import sys
from leasehold import Client
with Client(sys.argv[1]) as client, client.lock(sys.argv[2]) as guard:
    with open(sys.argv[3], "a") as file:
        file.write(f"thread {guard.token}\\n")
"""
"""Notes the token of its grant in a file."""

OVERLOAD = "late: a pause or an overload"
"""The end of the line that a busy machine may cause."""


class Processes:
    """The processes that a test starts, which are ended with the test."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self.count = 0

    def start(self, *words: str) -> None:
        self._started.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        self.count += 1

    def join(self) -> None:
        for process in self._started:
            _, said = process.communicate(timeout=4 * PATIENCE)
            complaints = [line for line in said.splitlines() if not line.endswith(OVERLOAD)]
            assert (process.returncode, complaints) == (0, [])

    def in_turn(
        self, command: str, url: str, name: str, order: Path, asked: str, **other: list[str]
    ) -> list[tuple[str, int]]:
        """The kinds and tokens of threads, of our command and of another program that ask one after
        the other, in the order of their grants."""
        note = f"echo command $LEASEHOLD_TOKEN >> {order}"
        python = {"thread": ["-c", THREAD, url]} | other
        programs = {kind: [sys.executable, *it, name, str(order)] for kind, it in python.items()}
        run = [command, "run", "--quiet", "--store", url, name, "--", "sh", "-c", note]
        programs["command"] = run
        with Client(url) as client, client.lock(name, ttl=PATIENCE) as guard:
            for kind in asked.split():
                self.start(*programs[kind])
                eventually(lambda: client.lock(name).status().waiting == self.count)
        self.join()
        told = [line.split() for line in order.read_text().splitlines()]
        assert [kind for kind, _ in told] == asked.split()
        return [("thread", guard.token), *((kind, int(token)) for kind, token in told)]

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


class Postgres:
    """A private server with a table of a shop, on a free port; root runs it as `postgres`."""

    def __init__(self) -> None:
        debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
        found = shutil.which("initdb") or max(debian, default=None)
        if found is None:
            pytest.skip("PostgreSQL is not installed")
        programs = Path(found).parent
        self.directory = tempfile.mkdtemp()
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user is not None:
            shutil.chown(self.directory, self.user)
        data = f"{self.directory}/data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"postgres://app@127.0.0.1:{port}/postgres?sslmode=disable"
        begin = [programs / "initdb", "-U", "app", "-A", "trust", "--no-sync", "-D", data]
        subprocess.run(begin, user=self.user, check=True, stdout=subprocess.DEVNULL)
        serve = [programs / "postgres", "-D", data, "-F", "-h", "127.0.0.1", "-p", str(port)]
        self.process = subprocess.Popen(
            [*serve, "-k", self.directory], user=self.user, stderr=subprocess.DEVNULL
        )
        eventually(self._is_there)
        with psycopg.connect(self.url) as connection:
            connection.execute("CREATE TABLE invoice (id int PRIMARY KEY, charged int)")
            connection.execute("INSERT INTO invoice VALUES (42, 0)")

    def _is_there(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url).close()
            return True
        return False

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def living(what: Any) -> Iterator[Any]:
    """What is ended with its test."""
    yield what
    what.end()


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    yield from living(Redis())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    yield from living(Postgres())


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A Redis that the test may kill."""
    yield from living(Redis())


@pytest.fixture(params=["memory", "file", "redis", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | Memory:
    if request.param == "memory":
        return Memory()
    if request.param == "file":
        return f"file:{tmp_path / 'locks.db'}"
    server: Redis | Postgres = request.getfixturevalue(request.param)
    return server.url


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.name}/{os.getpid()}/{time.monotonic_ns()}"


@pytest.fixture
def command() -> str:
    """The command `leasehold`, written in Rust."""
    found = os.environ.get("LEASEHOLD_COMMAND") or shutil.which("leasehold")
    if found is None:
        pytest.skip("the command leasehold is not there: `cargo xtask python` builds it")
    return found


@pytest.fixture
def processes() -> Iterator[Processes]:
    yield from living(Processes())


@pytest.fixture
def client(store: str | Memory) -> Iterator[Client]:
    with Client(store) as client:
        yield client


Program = Callable[..., subprocess.CompletedProcess[str]]


def finished(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    patience: Any = {"timeout": 5 * PATIENCE, "check": False}
    return subprocess.run(words, capture_output=True, text=True, **patience, **more)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs a separate program, which must succeed and print no complaints."""

    def run(text: str, *words: str, code: int = 0, says: str | None = None) -> object:
        path = tmp_path / f"program{time.monotonic_ns()}.py"
        path.write_text(text)
        ended = finished(sys.executable, "-W", "error", str(path), *words)
        assert ended.returncode == code, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
        assert ended.stderr == "", ended.stderr
        if says is not None:
            assert ended.stdout.strip() == says
        return ended

    return run  # type: ignore[return-value]


def lose(client: Client, guard: Guard) -> str | None:
    """Takes a lease away from its holder, and returns the reason that it is told."""
    assert client.admin.revoke(guard.name, guard.token, now=True)
    return guard.wait_lost(PATIENCE)


def eventually(what: Callable[[], object]) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it has never become so"
        time.sleep(0.01)
