"""What is in a cycle with its callback is collected, and what it holds is released."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from conftest import PATIENCE, eventually
from leasehold import AsyncClient, Client, Memory


class Worker:
    """An object that has what calls it back."""

    def __init__(self) -> None:
        self.memory, self.kept, self.told = Memory(), None, []

    def call(self, value: Any) -> str:
        self.told.append(value)
        return "a"


def on_lost(worker: Worker, function: Callable[[Any], object]) -> Any:
    guards = [Client(worker.memory).lock("a").acquire()]
    guards.append(guards[0].reenter())
    guards[1].on_lost(function)
    return guards


CYCLES: dict[str, Callable[[Worker], Any]] = {
    "a_method_for_the_loss": lambda it: on_lost(it, it.call),
    "a_function_for_the_loss": lambda it: on_lost(it, lambda reason: it.call(reason)),
    "a_listener": lambda it: Client(it.memory, on_event=it.call),
    "a_listener_whose_client_holds": lambda it: (
        Client(it.memory, on_event=it.call).lock("a").acquire()
    ),
    "a_listener_for_tasks": lambda it: AsyncClient(it.memory, on_event=it.call),
    "a_name_by_function": lambda it: Client(it.memory).synchronized(it.call)(it.call),
    "a_job": lambda it: Client(it.memory).job("a")(it.call),
    "an_observation": lambda it: Client(it.memory, on_event=it.call).election("a").observe(),
}


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_has_its_callback_is_collected(cycle: str) -> None:
    worker = Worker()
    memory, left = worker.memory, weakref.ref(worker)
    worker.kept = CYCLES[cycle](worker)
    del worker
    gc.collect()
    assert left() is None
    Client(memory).lock("a").acquire(timeout=PATIENCE).release()


@pytest.mark.parametrize("is_cycle", [True, False])
def test_a_loss_is_called_back_although_the_guard_is_forgotten_before(is_cycle: bool) -> None:
    worker, opened = Worker(), threading.Event()
    told, client = worker.told, Client(worker.memory, on_event=lambda event: opened.wait(PATIENCE))
    guard = client.lock("a").acquire()
    guard.on_lost(worker.call if is_cycle else told.append)
    client.admin.revoke("a", guard.token, now=True)
    assert guard.wait_lost(PATIENCE) == "revoked"
    worker.kept = guard
    del guard, worker
    gc.collect()
    opened.set()
    eventually(lambda: told == ["revoked"])
