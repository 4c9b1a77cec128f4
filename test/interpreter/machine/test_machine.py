"""DMA policies, semaphores, remote transfers, deadlocks, the sync and init checks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type, IntegerType, MemRefType, NoneAttr, f32

from pallasite.diagnostics import ExecutionError, SourceLocation
from pallasite.dialects.tpu import (
    DMASemaphoreType,
    MemorySpaceAttr,
    SemaphoreType,
    TiledLayoutAttr,
)
from pallasite.interpreter.machine import dma
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.order import Order
from pallasite.layouts.tiling import infer_tiling, native_tiling
from pallasite.targets import get_target

POLICIES = ("eager", "on_wait", "random")
BF16 = BFloat16Type()
V5E = get_target("v5e")


def array_type(shape, space, element=f32, tiling=None) -> MemRefType:
    layout = NoneAttr() if tiling is None else TiledLayoutAttr.of(tiling)
    return MemRefType(element, shape, layout, MemorySpaceAttr(space))


def semaphore_type(kind=None, shape=()) -> MemRefType:
    return MemRefType(
        kind or DMASemaphoreType(), shape, memory_space=MemorySpaceAttr("semaphore_mem")
    )


@pytest.mark.parametrize("element", [f32, BF16, IntegerType(8), IntegerType(4)], ids=str)
def test_copies_between_tilings(element):
    core = Machine(V5E).cores[0]
    shape = (40, 300)
    bits = element.bitwidth
    tilings = [native_tiling(shape, bits), infer_tiling(shape, bits), None]
    array = np.random.default_rng(0).integers(-8, 8, shape)
    for first, second in itertools.product(tilings, tilings):
        source = core.allocate(array_type(shape, "any", element, first), argument=True)
        target = core.allocate(array_type(shape, "vmem", element, second))
        source.write(array.astype(source.codec.carrier))
        dma.copy(source, target)
        np.testing.assert_array_equal(target.read(), array)
        part = target.slice((3, 100), (20, 77))
        dma.copy(source.slice((16, 128), (20, 77)), part)
        np.testing.assert_array_equal(part.read(), array[16:36, 128:205])


@pytest.mark.parametrize("checks", [(), ("init",)])
@pytest.mark.parametrize("rows", [16, 15, 8])
def test_what_a_first_copy_leaves_is_poison(rows, checks, monkeypatch):
    filled = []
    unfilled = Buffer.unfilled
    monkeypatch.setattr(Buffer, "unfilled", lambda self: (filled.append(self), unfilled(self)))
    core = Machine(V5E, checks=checks).cores[0]
    source = core.allocate(array_type((16, 128), "any", f32), argument=True)
    target = core.allocate(array_type((16, 128), "vmem", f32))
    source.write(np.ones((16, 128), np.float32))
    dma.copy(source.slice((0, 0), (rows, 128)), target.slice((0, 0), (rows, 128)))
    assert (target.buffer in filled) == (rows == 16), "it need not be filled where all is written"
    assert (target.read()[:rows] == 1).all() and np.isnan(target.read()[rows:]).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_lands_by_its_wait(policy):
    for seed in range(5):
        machine = Machine(V5E, order=Order(policy, seed), checks=("sync",))
        core = machine.cores[0]
        source = core.allocate(array_type((16, 128), "any"))
        target = core.allocate(array_type((16, 128), "vmem"))
        semaphore = core.allocate(semaphore_type(shape=(2,))).slice((1,), (1,)).keep(())
        source.write(np.ones((16, 128), np.float32))

        def program(core=core, source=source, target=target, semaphore=semaphore):
            core.enqueue(source, target, semaphore)
            early = target.read()
            yield from core.wait(semaphore, target.byte_count)
            return early

        (early,) = machine.run([(core, program())])
        np.testing.assert_array_equal(target.read(), 1)
        assert machine.findings == []
        if policy != "random":
            assert np.isnan(early).all() == (policy == "on_wait")


def test_transfers_on_one_semaphore_count_bytes():
    machine = Machine(V5E)
    core = machine.cores[0]
    semaphore = core.allocate(semaphore_type())
    source = core.allocate(array_type((16, 128), "any"))
    target = core.allocate(array_type((16, 128), "vmem"))
    source.write(np.ones((16, 128), np.float32))

    def program():
        for row in (0, 8):
            core.enqueue(
                source.slice((row, 0), (8, 128)), target.slice((row, 0), (8, 128)), semaphore
            )
        yield from core.wait(semaphore, 16 * 128 * 4)

    machine.run([(core, program())])
    np.testing.assert_array_equal(target.read(), 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_ring_of_many_devices(policy):
    count = 1024
    machine = Machine(V5E, devices=count, order=Order(policy, 3), checks=("sync",))
    programs, outputs = [], []
    for core in machine.cores:
        source = core.allocate(array_type((1, 128), "any", IntegerType(32)))
        target = core.allocate(array_type((1, 128), "any", IntegerType(32)))
        sent, received = core.allocate(semaphore_type()), core.allocate(semaphore_type())
        source.write(np.full((1, 128), core.device.index, np.int32))
        outputs.append(target)

        def program(core=core, source=source, target=target, sent=sent, received=received):
            barrier = core.barrier(SemaphoreType())
            right = (core.device.index + 1) % count
            core.signal(core.peer(right, None), barrier, 1)
            yield from core.wait(barrier, 1)
            core.enqueue(source, target, received, sent, peer=core.peer(right, None))
            yield from core.wait(sent, source.byte_count)
            yield from core.wait(received, target.byte_count)

        programs.append((core, program()))
    machine.run(programs)
    for index, target in enumerate(outputs):
        assert (target.read() == (index - 1) % count).all()
    assert machine.findings == []


@pytest.mark.parametrize("seed", range(4))
def test_transfers_to_a_peer_arrive_in_order(seed):
    machine = Machine(V5E, devices=2, order=Order.seeded(seed))
    sources, targets, semaphores = [], [], []
    for core in machine.cores:
        source = core.allocate(array_type((8, 128), "any"))
        source.write(np.ones((8, 128), np.float32))
        sources.append(source)
        targets.append([core.allocate(array_type((8, 128), "vmem")) for _ in range(3)])
        semaphores.append((core.allocate(semaphore_type()), core.allocate(semaphore_type())))

    def sender(core):
        sent, received = semaphores[0]
        for target in targets[0]:
            core.enqueue(sources[0], target, received, sent, peer=core.peer(1, None))
        yield from core.wait(sent, 3 * sources[0].byte_count)

    def receiver(core):
        for target in targets[1]:
            yield from core.wait(semaphores[1][1], target.byte_count)
            np.testing.assert_array_equal(target.read(), 1)

    machine.run([(machine.cores[0], sender(machine.cores[0])),
                 (machine.cores[1], receiver(machine.cores[1]))])  # fmt: skip


def test_same_seed_same_interleaving():
    def trace(seed):
        machine = Machine(V5E, devices=6, order=Order("random", seed))
        order = []

        def program(core):
            barrier = core.barrier(SemaphoreType())
            for peer in machine.cores:
                core.signal(peer, barrier, 1)
                order.append((core.device.index, peer.device.index))
            yield from core.wait(barrier, 6)
            order.append(core.device.index)

        machine.run([(core, program(core)) for core in machine.cores])
        return order

    assert trace(1) == trace(1)
    assert len({str(trace(seed)) for seed in range(5)}) > 1


def test_deadlock_names_every_stuck_core():
    machine = Machine(V5E, devices=3)

    def program(core):
        semaphore = core.allocate(semaphore_type(SemaphoreType()), "%done")
        if core.device.index:
            yield from core.wait(semaphore, 2, SourceLocation("kernel.py", 7))

    with pytest.raises(ExecutionError) as caught:
        machine.run([(core, program(core)) for core in machine.cores])
    error = caught.value
    assert error.code == "deadlock"
    assert str(error.location) == "kernel.py:7"
    assert [n.message for n in error.notes] == [
        "the cycle: core 0 of device 1 waits for core 0 of device 2, which waits for "
        "core 0 of device 1",
        "signal as much as is waited for: pl.semaphore_signal(sem, n)",
        "core 0 of device 0 finished and will not signal any more",
    ] + [
        f"core 0 of device {d} waits at kernel.py:7 for 2 on %done of core 0 of device {d}, "
        "which has 0"
        for d in (1, 2)
    ]


def test_sync_check_finds_leftovers():
    machine = Machine(V5E, checks=("sync",))
    core = machine.cores[0]
    source = core.allocate(array_type((8, 128), "any"))
    target = core.allocate(array_type((8, 128), "vmem"))
    arrived = core.allocate(semaphore_type(), "%arrived")
    count = core.allocate(semaphore_type(SemaphoreType()), "%count")

    def program():
        core.enqueue(source, target, arrived, at=SourceLocation("kernel.py", 4))
        core.signal(core, count, 3)
        return
        yield

    machine.run([(core, program())])
    assert [f.code for f in machine.findings] == ["unawaited-dma", "semaphore-not-zero"]
    assert str(machine.findings[0].location) == "kernel.py:4"
    assert "%count" in machine.findings[1].message and "holds 3" in machine.findings[1].message


def test_sync_check_looks_at_the_end_of_scopes():
    machine = Machine(V5E, checks=("sync",))
    core = machine.cores[0]
    source = core.allocate(array_type((8, 128), "any"))

    def program():
        token = core.mark()
        target = core.allocate(array_type((8, 128), "vmem"), "%inner")
        count = core.allocate(semaphore_type(SemaphoreType()), "%count")
        arrived = core.allocate(semaphore_type(), "%arrived")
        core.enqueue(source, target, arrived, at=SourceLocation("kernel.py", 4))
        core.signal(core, count, 3)
        core.release(token)
        return
        yield

    machine.run([(core, program())])
    messages = {f.code: f.message for f in machine.findings}
    assert len(machine.findings) == 2
    assert "in flight when the scope of %inner ends" in messages["unawaited-dma"]
    assert "holds 3 at the end of the scope" in messages["semaphore-not-zero"]
    assert not machine.engine.flying


@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_of_no_rows_has_landed_when_it_starts(policy):
    """What it adds to its semaphore is nothing, so that no wait could tell."""
    for seed in range(5):
        machine = Machine(V5E, order=Order(policy, seed), checks=("sync", "race", "init"))
        core = machine.cores[0]
        source = core.allocate(array_type((8, 128), "any"))
        arrived = core.allocate(semaphore_type(), "%arrived")

        def program(core=core, source=source, arrived=arrived):
            token = core.mark()
            target = core.allocate(array_type((8, 128), "vmem"), "%inner")
            core.enqueue(source.slice((0, 0), (0, 128)), target.slice((8, 0), (0, 128)), arrived)
            yield from core.wait(arrived, 0)
            core.release(token)

        machine.run([(core, program())])
        assert not machine.findings
        assert not machine.engine.flying


def test_a_regular_semaphore_counts_transfers():
    machine = Machine(get_target("v6e"))
    core = machine.cores[0]
    source = core.allocate(array_type((8, 128), "any"))
    target = core.allocate(array_type((8, 128), "vmem"))
    semaphore = core.allocate(semaphore_type(SemaphoreType()))

    def program():
        core.enqueue(source, target, semaphore)
        yield from core.wait(semaphore, 1)

    machine.run([(core, program())])
    assert core.semaphore(semaphore).value == 0


def test_remote_refs_must_exist_on_the_peer():
    machine = Machine(V5E, devices=2, order=Order("eager"))
    here = machine.cores[0]
    source = here.allocate(array_type((8, 128), "vmem"))
    semaphore = here.allocate(semaphore_type())

    def program():
        here.enqueue(source, source, semaphore, semaphore, peer=machine.cores[1])
        return
        yield

    with pytest.raises(ExecutionError) as caught:
        machine.run([(here, program())])
    assert caught.value.code == "remote-not-allocated"
    with pytest.raises(ExecutionError, match="device id 2 in a machine of 2 devices"):
        here.peer(2, None)


def test_shapes_of_a_copy_must_agree():
    core = Machine(V5E).cores[0]
    source = core.allocate(array_type((8, 128), "any"))
    target = core.allocate(array_type((16, 128), "vmem"))
    with pytest.raises(ExecutionError) as caught:
        dma.copy(source, target)
    assert caught.value.code == "dma-shape"


@pytest.mark.parametrize("policy", POLICIES)
def test_copies_carry_their_uninitialised_elements(policy):
    machine = Machine(V5E, order=Order(policy), checks=("init",))
    core = machine.cores[0]
    source = core.allocate(array_type((8, 128), "any"), argument=True)
    target = core.allocate(array_type((8, 128), "vmem"), "%target")
    semaphore = core.allocate(semaphore_type())
    source.store((0, 0), np.zeros((4, 128), np.float32))

    def program():
        core.enqueue(source, target, semaphore)
        yield from core.wait(semaphore, target.byte_count)
        assert core.observer is not None
        core.observer.read(core, Box(target, (0, 0), (4, 128)), None)
        core.observer.read(core, Box(target, (0, 0), (8, 128)), None)

    machine.run([(core, program())])
    (finding,) = machine.findings
    assert finding.code == "uninitialised-read"
    assert "512 of 1024 elements of %target" in finding.message and "[4, 0]" in finding.message


@pytest.mark.parametrize("devices", [1, 2])
def test_a_transfer_in_flight_is_named_where_its_data_is_missing(devices):
    machine = Machine(V5E, devices=devices, checks=("init",))
    sender, reader = machine.cores[0], machine.cores[-1]
    refs = [
        (core.allocate(array_type((8, 128), "any"), argument=True),
         core.allocate(array_type((16, 128), "vmem"), "%target"),
         core.allocate(semaphore_type(), "%arrived"))
        for core in machine.cores
    ]  # fmt: skip
    (source, target, arrived), (_, there, _) = refs[0], refs[-1]
    peer = {} if devices == 1 else {"source_semaphore": arrived, "peer": reader}

    def sends():
        half = target.slice((8, 0), (8, 128))
        sender.enqueue(source, half, arrived, at=SourceLocation("kernel.py", 4), **peer)
        return
        yield

    def reads():
        for row in (0, 8):
            reader.observer.read(reader, Box(there, (row, 0), (8, 128)), None)
        return
        yield

    def both():
        yield from sends()
        yield from reads()

    machine.run([(sender, both())] if devices == 1 else [(sender, sends()), (reader, reads())])
    alone, missing = machine.findings
    assert not any("kernel.py" in str(note.location) for note in alone.notes)
    (named,) = [note for note in missing.notes if str(note.location) == "kernel.py:4"]
    assert "writes there: wait for it before" in named.message
    assert f"for {source.byte_count} bytes on %arrived" in named.message
