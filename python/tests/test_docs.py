"""Runs the code of the pages: each block is a program, with a hidden test after it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from conftest import Postgres, Redis, finished

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```python\n(.*?)```(.*?)(?=```python\n|^#|\Z)", re.DOTALL | re.MULTILINE)
SHOP = "postgres://app@10.0.0.7/shop"
HIDDEN = re.compile(r"<!-- test\n(.*?)-->", re.DOTALL)


def programs() -> list[object]:
    found: list[object] = []
    for page in ("docs/python.md", "python/README.md"):
        text = (ROOT / page).read_text()
        for block in BLOCK.finditer(text):
            hidden = "\n".join(HIDDEN.findall(block[2]))
            headings = re.findall(r"^#+ (.*)$", text[: block.start()], re.MULTILINE)
            line = text[: block.start()].count("\n") + 1
            found.append(pytest.param(block[1] + hidden, id=f"{page}:{line} {headings[-1]}"))
    return found


def test_the_command_of_the_readme_would_install_the_package(tmp_path: Path) -> None:
    (found,) = re.findall(r"`(pip install \./[^`]*)`", (ROOT / "README.md").read_text())
    (tmp_path / "leasehold").symlink_to(ROOT)
    words = [*found.split(), "--dry-run", "--no-index", "--no-deps", "--no-build-isolation"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = finished(sys.executable, "-m", *words, cwd=tmp_path, env={**os.environ, "PATH": path})
    assert "Would install leasehold-lock-" in ended.stdout, ended.stderr


@pytest.mark.parametrize("text", programs())
def test_the_code_of_the_pages_runs(
    text: str, redis: Redis, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = tmp_path / "shop.py"
    database = redis.url.rsplit("/", 1)[0] + "/0"
    if SHOP in text:
        server: Postgres = request.getfixturevalue("postgres")
        text = text.replace(SHOP, server.url)
    path.write_text(
        text.replace("redis://10.0.0.5/0", database).replace(
            "127.0.0.1:6379/0", f"127.0.0.1:{redis.port}/0"
        )
    )
    ended = finished(sys.executable, "-W", "error::ResourceWarning", str(path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
