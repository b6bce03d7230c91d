"""The public surface is that of `api/leasehold.pyi`, and type checkers see it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leasehold
from conftest import finished

API = Path(__file__).resolve().parents[2] / "api"

ALLOWED = r"""
leasehold\..*\.__init__
leasehold\.(P|T|LossReason|Mode)
"""
"""Allowed differences: constructors that only clients call, and names of types."""

GOOD = """
from typing import assert_type
from leasehold import AsyncClient, AsyncGuard, Client, Guard, LossReason

client, tasks = Client("memory:", ttl=5), AsyncClient()
with client.lock("a", label="x") as guard:
    assert_type(guard, Guard)
    assert_type(guard.loss, LossReason | None)
if found := client.lock("a").try_acquire():
    assert_type(found.renew(), float)

@client.synchronized("a/{number}", skip=True)
def skipped(number: int) -> str:
    return str(number)

@client.synchronized("a")
def waits(number: int) -> str:
    return str(number)

assert_type(skipped(1), str | None)
assert_type(waits(1), str)

@tasks.synchronized("a")
async def later(number: int) -> str:
    return str(number)

async def main() -> None:
    async with tasks.lock("a") as held, tasks.lock("b").acquire(timeout=5) as other:
        assert_type(held, AsyncGuard)
        assert_type(other, AsyncGuard)
    assert_type(await tasks.lock("a").acquire(), AsyncGuard)
    assert_type(await later(1), str)
"""

BAD = {
    "an_option_that_is_none": 'Client("memory:", tll=5)',
    "a_name_of_a_wrong_type": "Client().lock(5)",
    "a_busy_lock_that_is_not_looked_at": 'Client().lock("a").try_acquire().token',
    "an_argument_of_a_decorated_function": 'Client().synchronized("a")(len)(5, 6)',
    "a_plain_with_over_an_async_lock": 'with AsyncClient().lock("a") as guard: guard.token',
    "a_loss_that_is_none": 'Client().lock("a").acquire().loss == "gone"',
}


def sample(text: str, directory: Path) -> Path:
    path = directory / "sample.py"
    path.write_text("# pyright: strict\n" + text)
    return path


def mypy(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = sample(text, directory)
    words = ["--strict", "--python-version=3.11", f"--cache-dir={directory.parent}", str(path)]
    return finished(sys.executable, "-m", "mypy", *words, cwd=directory)


def test_the_public_surface_is_the_one_that_was_agreed(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(ALLOWED)
    words = ["--concise", "--ignore-missing-stub", "--ignore-disjoint-bases"]
    words += ["--ignore-unused-allowlist", "--allowlist", str(allowed)]
    where: Any = {"cwd": tmp_path, "env": {**os.environ, "MYPYPATH": str(API)}}
    compared = finished(sys.executable, "-m", "mypy.stubtest", "leasehold", *words, **where)
    assert compared.returncode == 0, compared.stdout + compared.stderr


def pyright(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    program = os.environ.get("LEASEHOLD_PYRIGHT")
    if program is None:
        pytest.skip("pyright is not there: `cargo xtask python` installs it where npm is")
    path = sample(text, directory)
    return finished(program, "--pythonpath", sys.executable, str(path), cwd=directory)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_code_in_order_passes_and_each_mistake_is_found(check: Any, tmp_path: Path) -> None:
    good = check(GOOD, tmp_path)
    assert good.returncode == 0, good.stdout
    begin = "from leasehold import AsyncClient, Client\n"
    wrong = begin + "".join(f"def {name}() -> None:\n    {text}\n" for name, text in BAD.items())
    found = check(wrong, tmp_path).stdout
    for number, name in enumerate(BAD):
        assert re.search(rf"sample\.py:{4 + 2 * number}:.* error", found), (name, found)


@pytest.mark.parametrize("name", leasehold.__all__)
def test_a_public_name_says_where_it_is_and_what_it_does(name: str) -> None:
    found = getattr(leasehold, name)
    if not isinstance(found, type):
        return
    assert found.__module__ == "leasehold" and inspect.getdoc(found)
    for method, value in vars(found).items():
        if not method.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{method}"
