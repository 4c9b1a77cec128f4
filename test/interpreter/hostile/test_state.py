"""State belongs to the run: threads, exceptions and interrupts leave nothing behind; many devices."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite import Diagnostic, api
from pallasite.interpreter.machine import dma

ANY = "memref<8x128xf32, #tpu.memory_space<any>>"
SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def permute(devices: int, *, handshake: bool = True) -> str:
    """Every device sends its block to the right, behind a barrier with its neighbours."""
    barrier = f"""
        %two = arith.constant 2 : i32
        %bar = tpu.sem_barrier : {SEMAPHORE}
        tpu.sem_signal %bar, %one device_id %left : {SEMAPHORE}
        tpu.sem_signal %bar, %one device_id %right : {SEMAPHORE}
        tpu.sem_wait %bar, %two : {SEMAPHORE}"""
    return f"""module {{
      func.func @kernel(%x: {ANY}, %o: {ANY}, %s: {DMA}, %r: {DMA}) attributes {{
          dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 2 : i64,
          tpu.core_type = #tpu.core_type<tc>}} {{
        %me = tpu.device_id : i32
        %one = arith.constant 1 : i32
        %n = arith.constant {devices} : i32
        %less = arith.constant {devices - 1} : i32
        %r1 = arith.addi %me, %one : i32
        %right = arith.remsi %r1, %n : i32
        %l1 = arith.addi %me, %less : i32
        %left = arith.remsi %l1, %n : i32
        {barrier if handshake else ""}
        tpu.enqueue_dma source(%x : {ANY}) target(%o : {ANY}) source_semaphore(%s : {DMA}) target_semaphore(%r : {DMA}) device_id(%right)
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%x : {ANY}) dst(%x : {ANY})
        tpu.wait_dma2 semaphore(%r : {DMA}) src(%o : {ANY}) dst(%o : {ANY})
        return
      }}
    }}"""


def run(devices: int, **options: Any) -> list[Any]:
    blocks = [[np.full((8, 128), d, np.float32)] for d in range(devices)]
    return pallasite.run(
        pallasite.parse(permute(devices)), blocks, devices=devices, form="mosaic",
        results=[((8, 128), "float32")], **options,
    )  # fmt: skip


def right(outputs: list[Any]) -> bool:
    return all((o[0] == (d - 1) % len(outputs)).all() for d, o in enumerate(outputs))


def test_many_devices_permute_in_time() -> None:
    began = time.monotonic()
    assert right(run(256))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_checks_are_silent_on_a_correct_ring(seed: int) -> None:
    assert right(run(8, checks=["all"], seed=seed))


def test_a_seed_repeats_the_run_to_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, int]] = []
    finish, read = dma.Engine.finish, dma.Engine.read

    def note(name: str, then: Any) -> Any:
        def method(self: dma.Engine, transfer: dma.Transfer) -> None:
            events.append((name, transfer.sender.device.index))
            then(self, transfer)

        return method

    monkeypatch.setattr(dma.Engine, "finish", note("finish", finish))
    monkeypatch.setattr(dma.Engine, "read", note("read", read))
    orders: list[list[tuple[str, int]]] = []
    for seed in (3, 3, 4):
        events.clear()
        run(12, seed=seed)
        orders.append(list(events))
    assert orders[0] == orders[1] != orders[2]


def test_two_threads() -> None:
    done: list[bool] = []

    def work(seed: int) -> None:
        done.extend(right(run(6, checks=["all"], seed=seed)) for _ in range(5))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 10


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, Stopped, MemoryError])
def test_an_exception_in_the_middle_leaks_nothing(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = np.geterr()
    count = 0
    finish = dma.Engine.finish

    def fail(self: dma.Engine, transfer: dma.Transfer) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise error
        finish(self, transfer)

    with monkeypatch.context() as patched:
        patched.setattr(dma.Engine, "finish", fail)
        with pytest.raises((error, Diagnostic)):
            run(6)
    assert np.geterr() == settings
    assert right(run(6, checks=["all"]))


def test_a_refused_kernel_leaks_nothing() -> None:
    with pytest.raises(Diagnostic):
        run(6, max_steps=10)
    assert right(run(6, checks=["all"]))
    with pytest.raises(Diagnostic):
        run(6, max_memory=100)
    outcome = api.simulate(
        pallasite.parse(permute(2)), [[np.zeros((8, 128), np.float32)]] * 2, devices=2,
        form="tiles", results=[((8, 128), "float32")], checks=["all"],
    )  # fmt: skip
    assert outcome.findings == []
