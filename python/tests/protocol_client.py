"""A client of the native layout that is written from docs/protocol.md alone, with redis-py and
nothing of leasehold.

    python protocol_client.py URL NAME FILE [die]

It takes the name exclusively, adds a line with its token to the file, and ends the hold; or it dies
with the hold.
"""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import redis

SCRIPTS = Path(__file__).parents[2] / "crates/leasehold/src/store/redis/layout/lua"

NUMBERS = {
    "ASK": 1_000,
    "BALLOT_LEAD": 10_000_000,
    "BATCH": 16,
    "CLOSED": 60_000,
    "GRACE": 60_000,
    "LOCK_CAPACITY": 2_147_483_647,
    "MAX_CLOSED": 64,
    "MAX_WAITING": 100_000,
    "QUEUE": 60_000,
    "WINDOW": 2_000,
}
"""The numbers for which the scripts have words."""


def script(name: str) -> str:
    """A script with all that it includes."""
    lines = []
    for line in (SCRIPTS / f"{name}.lua").read_text().splitlines():
        included = re.fullmatch(" *--@include (.+)", line)
        if included:
            lines.append(script(included[1].replace("guard", "unguarded")))
        else:
            code, comment = re.fullmatch("(.*?)(--.*)?", line).groups()  # type: ignore[union-attr]
            words = re.sub(r"\w+", lambda word: str(NUMBERS.get(word[0], word[0])), code)
            lines.append(words + (comment or ""))
    return "\n".join(lines)


class Client:
    """One client: it has an id, and an inbox."""

    def __init__(self, url: str) -> None:
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self.id, self.attempts = uuid.uuid4().hex, 0
        self.inbox = self.redis.pubsub(ignore_subscribe_messages=True)
        self.inbox.subscribe(f"lh:inbox:{self.id}")
        words = ("draw", "end", "keep", "take")
        self.scripts = {word: self.redis.register_script(script(word)) for word in words}

    def run(self, word: str, gate: str, *args: Any) -> str:
        answer: str = self.scripts[word](keys=[gate, "lh:%token"], args=args)
        return answer

    def acquire(self, name: str, ttl: int) -> Lease:
        """Waits for the name, and takes it for `ttl` (ms)."""
        self.attempts += 1
        attempt, gate = f"{self.id}-{self.attempts}", f"lh:{{{name}}}"
        request = f"{attempt} * protocol {os.getpid()}"
        # A name that is free is taken by one command, and a number is drawn in the same MULTI.
        self.redis.script_load(self.scripts["draw"].script)
        both = self.redis.pipeline(transaction=True)
        both.set(gate, f"h {attempt}", nx=True, px=ttl)
        both.evalsha(self.scripts["draw"].sha, 1, "lh:%token", 1)
        taken, number = both.execute()
        if taken:
            return Lease(self, gate, request, int(number), f"h {attempt}")
        place = "0"
        while True:
            answer = self.run("take", gate, request, ttl, place, "lh:inbox:", "").split()
            if answer[0] == "G":
                return Lease(self, gate, request, int(answer[1]), f"h {attempt}")
            if answer[0] == "Q":
                place = answer[1]
                if token := self.told(attempt, int(answer[3])):
                    lease = Lease(self, gate, request, token, f"h {attempt}")
                    if lease.keep(ttl):  # it claims what was handed over
                        return lease
            else:
                raise RuntimeError(f"{name}: {answer}")

    def told(self, attempt: str, most: int) -> int | None:
        """Waits for the message of a grant, for `most` ms. Returns the token."""
        end = time.monotonic() + min(most, NUMBERS["ASK"]) / 1_000
        while (left := end - time.monotonic()) > 0:
            message = self.inbox.get_message(timeout=left)
            words = message["data"].split() if message else []
            if words[:2] == ["G", attempt]:
                return int(words[2])
        return None


class Lease:
    """A hold, until its time is over."""

    def __init__(self, client: Client, gate: str, request: str, token: int, said: str) -> None:
        self.client, self.gate, self.request, self.token = client, gate, request, token
        self.said = said

    def keep(self, ttl: int) -> bool:
        """Keeps the hold for `ttl` (ms) from now, and says who holds."""
        facts = self.request.split(" ", 2)[2]
        told = f"{self.token} {facts}"
        kept = self.client.run("keep", self.gate, self.said, ttl, told) in ("h", "w")
        if kept:
            self.said = f"h {self.request.split()[0]} {told}"
        return kept

    def release(self) -> None:
        """Ends the hold, and hands the name on."""
        self.client.run("end", self.gate, self.said, self.request, "lh:inbox:", "")


def main(url: str, name: str, file: str, *dies: str) -> None:
    lease = Client(url).acquire(name, 1_000 if dies else 30_000)
    with open(file, "a") as order:
        order.write(f"protocol {lease.token}\n")
    if dies:
        os.kill(os.getpid(), 9)
    lease.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
