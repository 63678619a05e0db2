"""Programs on a device: reset, run, read back, and report every out-of-bounds write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kcurate import backends
from kcurate.backends.base import Compiled, Device, EntryPoint, KernelFault
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.judge.workers.inside.input_sets import add_fingerprint
from kcurate.problem.inputs.contents import generate
from kcurate.problem.program import bind
from kcurate.records import (
    Buffer,
    BufferArg,
    Copy,
    Fill,
    For,
    Init,
    Launch,
    Problem,
    Side,
    Sizes,
    Step,
    Swap,
    Tolerance,
    Upload,
    ValueArg,
    View,
    WhileNonzero,
)

N = 8
CODE = """
__constant__ float table[8];
__device__ int runs = 5;
__global__ void add(const float *a, float *b, float c) { b[threadIdx.x] = a[threadIdx.x] + c; }
__global__ void put(float *x, int at, float value) { x[at] = value; }
__global__ void look(const float *x, float *to, int at) { to[0] = x[at]; }
__global__ void from_table(float *x) { x[threadIdx.x] = table[threadIdx.x]; }
__global__ void count(float *x) { x[0] = runs; runs += 1; }
__global__ void down(int *flag) { flag[0] -= 1; }
__global__ void nothing() {}
"""
KERNELS = ("add", "put", "look", "from_table", "count", "down", "nothing")
PROBLEM = Problem(
    Sizes(({"n": N},), {"n": N}),
    {
        "a": Buffer("float32", ("n",), Init("arange", {"start": 1})),
        "padded": Buffer("float32", ("n",), Init("ones"), pad=(3, 2)),
        "x": Buffer("float32", ("n",), Init("arange"), role="inout"),
        "out": Buffer("float32", ("n",), role="out"),
        "bytes": Buffer("uint8", (7,), role="out"),
        "flag": Buffer("int32", (1,), role="scratch"),
        "spare": Buffer("float32", ("n",), role="scratch"),
    },
)
ARANGE = [float(i) for i in range(N)]
Make = Callable[..., DeviceProgram]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    one = backends.open_device("emulator")
    yield one
    one.close()


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    entries = [EntryPoint(name) for name in KERNELS]
    made = backends.open_compiler("emulator").compile(CODE, entries, ["table"])
    assert isinstance(made, Compiled), made
    return made


@pytest.fixture
def prepare(device: Device, compiled: Compiled) -> Iterator[Make]:
    made: list[DeviceProgram] = []
    module = device.load(compiled)

    def make(*plan: Step, **side: Any) -> DeviceProgram:
        record = Side(CODE, plan, **side)
        sizes = PROBLEM.sizes.headline
        one = DeviceProgram(device, module, bind(PROBLEM, record, sizes), generate(PROBLEM, record, sizes, 1))
        one.reset(1)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


def launch(kernel: str, *args: Any, threads: int = 1) -> Launch:
    return Launch(kernel, (1,), (threads,), args)


def put(buffer: str, at: int, value: float = 9.0) -> Launch:
    return launch("put", buffer, ValueArg(at), ValueArg(value, "float32"))


def test_outputs_start_with_noise_with_zeros_or_as_they_were_left(prepare: Make) -> None:
    one = prepare(put("out", 0, 3.0))
    outputs = one.outputs()
    assert set(outputs) == {"x", "out", "bytes"}
    assert outputs["x"].tolist() == ARANGE
    assert len(set(outputs["out"].view(np.uint32))) == N
    assert outputs["out"].view(np.uint32).tolist() != outputs["x"].view(np.uint32).tolist()
    assert one.integrity() == ()
    one.reset(2, "zeros")
    one.run()
    left = one.outputs()["out"]
    one.reset(3, "kept")
    assert left[0] == 3.0
    assert np.array_equal(one.outputs()["out"].view(np.uint32), left.view(np.uint32))
    assert one.outputs()["x"].tolist() == ARANGE
    assert one.integrity() == ()


def test_zeros_may_end_in_noise(prepare: Make) -> None:
    """So that the first elements do not tell what the last ones hold."""
    one = prepare(launch("nothing"))
    zeros = []
    for salt in range(40):
        one.reset(salt, "zeros")
        words = one.outputs()["out"].view(np.uint32)
        zeros.append(N if not words.any() else int(np.flatnonzero(words)[0]))
        assert np.count_nonzero(words[zeros[-1] :]) == N - zeros[-1]
    assert N in zeros
    assert any(0 < count < N for count in zeros)


def test_buffers_lie_in_any_order(prepare: Make) -> None:
    places = [prepare(launch("nothing")).slots for _ in range(20)]
    assert len({one["a"].memory.address < one["out"].memory.address for one in places}) == 2


def test_noise_differs_between_buffers_and_from_run_to_run(prepare: Make) -> None:
    seen = set()
    one = prepare(launch("nothing"))
    for salt in (1, 2, 3):
        one.reset(salt)
        seen |= {array.tobytes()[:7] for name, array in one.outputs().items() if name != "x"}
    assert len(seen) == 6


def test_buffers_start_at_any_multiple_of_256_bytes(prepare: Make) -> None:
    starts = [
        slot.memory.address + slot.content_offset
        for _ in range(6)
        for slot in prepare(launch("nothing")).slots.values()
    ]
    assert all(start % 256 == 0 for start in starts)
    assert any(start % 512 for start in starts)


def test_a_tight_buffer_ends_where_its_memory_ends(device: Device, compiled: Compiled, prepare: Make) -> None:
    plan = (launch("look", "a", "out", ValueArg(256 // 4)),)
    loose = prepare(*plan)
    loose.run()
    sizes = PROBLEM.sizes.headline
    bound = bind(PROBLEM, Side(CODE, plan), sizes)
    tight = DeviceProgram(device, device.load(compiled), bound, generate(PROBLEM, None, sizes, 1), tight=True)
    tight.reset(1)
    with pytest.raises(KernelFault, match="past the end"):
        tight.run()
    tight.close()


def test_steps_run_in_order(prepare: Make) -> None:
    one = prepare(
        Fill("out", 2.0),
        launch("add", "a", "x", ValueArg(0.5, "float32"), threads=N),
        Copy("x", "out", offset=1, to_offset=4, count=3),
        For("i", 2, (put("x", 0, 7.0), put("x", 1, 8.0))),
    )
    one.run()
    assert one.outputs()["out"].tolist() == [2, 2, 2, 2, 2.5, 3.5, 4.5, 2]
    assert one.outputs()["x"].tolist() == [7, 8, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]
    assert one.integrity() == ()


def test_reset_undoes_a_run(prepare: Make) -> None:
    one = prepare(put("x", 3), put("out", 3), Swap(("x", "spare")), launch("count", "out"))
    one.run()
    first = one.outputs()
    assert first["out"][0] == 5
    one.reset(1)
    assert one.outputs()["x"].tolist() == ARANGE
    one.run()
    again = one.outputs()
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)


def test_unwritten_elements_show_the_noise(prepare: Make) -> None:
    one = prepare(put("out", 0))
    one.run()
    first = one.outputs()["out"]
    one.reset(2)
    one.run()
    assert first[0] == one.outputs()["out"][0]
    assert not np.array_equal(first.view(np.uint32)[1:], one.outputs()["out"].view(np.uint32)[1:])


def test_swapped_buffers_are_read_under_their_new_names(prepare: Make) -> None:
    one = prepare(Fill("spare", 3.0), Swap(("x", "spare")), put("spare", 0, 1.0))
    one.run()
    assert one.outputs()["x"].tolist() == [3.0] * N


def test_uploads_reach_the_symbol(prepare: Make) -> None:
    one = prepare(
        Fill("spare", 0.0),
        Upload("table", "spare"),
        Upload("table", "a", offset=2, to_offset=1, count=3),
        launch("from_table", "out", threads=N),
    )
    one.run()
    assert one.outputs()["out"].tolist() == [0, 3, 4, 5, 0, 0, 0, 0]


def test_flag_loops_end_at_zero_or_at_their_maximum(prepare: Make) -> None:
    body = (launch("down", "flag"), launch("add", "x", "x", ValueArg(1.0, "float32"), threads=N))
    one = prepare(Fill("flag", 3), WhileNonzero("flag", 5, body))
    one.run()
    assert one.outputs()["x"].tolist() == [i + 3 for i in ARANGE]
    endless = prepare(Fill("flag", 6), WhileNonzero("flag", 5, body))
    with pytest.raises(KernelFault, match="still not zero after 5 iterations") as fault:
        endless.run()
    assert fault.value.reason == "timeout"


@pytest.mark.parametrize(
    ("step", "violation"),
    [
        (put("out", N), "wrote outside the buffer 'out'"),
        (put("out", -1), "wrote outside the buffer 'out'"),
        (put("out", N + 1000), "wrote outside the buffer 'out'"),
        (put("spare", N), "wrote outside the buffer 'spare'"),
        (put("flag", 1), "wrote outside the buffer 'flag'"),
        (put("a", 2), "changed the input 'a'"),
        (put("a", N), "wrote outside the buffer 'a'"),
        (put("padded", N), "wrote into the padding of 'padded'"),
        (put("padded", -3), "wrote into the padding of 'padded'"),
        (put("padded", N + 2), "wrote outside the buffer 'padded'"),
        (put("padded", -4), "wrote outside the buffer 'padded'"),
    ],
)
def test_forbidden_writes_are_reported(prepare: Make, step: Step, violation: str) -> None:
    one = prepare(step)
    one._issue(one.program.ops)  # as where the device does not see to it
    assert one.integrity() == (violation,)
    one.reset(1)
    assert one.integrity() == ()


@pytest.mark.parametrize("step", [put("a", 2), put("a", N), put("padded", N)])
def test_the_emulator_lets_no_kernel_change_an_input_for_a_while(
    device: Device, prepare: Make, step: Step
) -> None:
    if device.name == "emulator":
        with pytest.raises(KernelFault, match="an input, which it may not change") as fault:
            prepare(step).run()
        assert fault.value.reason == "out_of_bounds"


def test_padding_reads_as_zero(prepare: Make) -> None:
    for at in (-3, -1, N, N + 1):
        one = prepare(put("out", 0), launch("look", BufferArg("padded"), "out", ValueArg(at)))
        one.run()
        assert one.outputs()["out"][0] == 0.0


def test_what_lies_around_a_buffer_changes_from_run_to_run(prepare: Make) -> None:
    for name in ("a", "out", "spare"):
        one = prepare(launch("look", name, "x", ValueArg(N)))
        seen = []
        for salt in (1, 2):
            one.reset(salt)
            one.run()
            seen.append(one.outputs()["x"].view(np.uint32)[0])
        assert seen[0] != seen[1]
    for at in (-1, N):
        one = prepare(launch("look", "a", "x", ValueArg(at)), put("a", at))
        one.reset(1, "kept")
        one._issue(one.program.ops[:1])
        assert one.outputs()["x"][0] in range(1, N + 1)
        assert one.integrity() == ()
        one._issue(one.program.ops)
        assert one.integrity() == ("wrote outside the buffer 'a'",)
    one = prepare(launch("look", "a", "x", ValueArg(N)))
    one.reset(1, "zeros")
    one.run()
    assert np.isnan(one.outputs()["x"][0])
    assert one.integrity() == ()


def test_views_are_padded_on_the_device_and_read_back_logically(prepare: Make) -> None:
    one = prepare(put("x", 0, 5.0), put("x", 1, 6.0), views={"x": View(pad=((1, 2),))})
    one.run()
    assert one.outputs()["x"].tolist() == [6.0, *ARANGE[1:]]
    assert one.integrity() == ()


class Prints:
    """Notes which fingerprints are asked for, in place of a GPU's timer."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def fingerprint(self, region: Any, salt: int, slot: int) -> None:
        self.asked.append((region.count,))

    def record_fingerprint(self, members: Any, count: int, salt: int, slot: int) -> None:
        self.asked.append((count, *(region.count for region in members)))


@pytest.mark.parametrize(
    ("shapes", "order", "asked"),
    [
        ([(5,)], "any", [(5,)]),
        ([(5, 2)], "any", [(5, 10)]),
        ([(5, 2)], "exact", [(10,)]),
        ([(5, 2), (5, 2)], "any", [(5, 10, 10)]),
        ([(5, 2, 3), (5,)], "any", [(5, 30, 5)]),
    ],
)
def test_rows_in_any_order_are_fingerprinted_as_records(
    device: Device,
    compiled: Compiled,
    shapes: list[tuple[int, ...]],
    order: Any,
    asked: list[tuple[int, ...]],
) -> None:
    rule = Tolerance(order=order)
    members = {f"y{i}": Buffer("int32", shape, role="out", tolerance=rule) for i, shape in enumerate(shapes)}
    joined = (tuple(members),) if len(members) > 1 else ()
    problem = Problem(PROBLEM.sizes, {**PROBLEM.buffers, **members}, records=joined)
    program = bind(problem, Side(CODE, (launch("nothing"),)), PROBLEM.sizes.headline)
    prepared = DeviceProgram(device, device.load(compiled), program, generate(problem, None, {"n": N}, 1))
    prints: Any = Prints()
    add_fingerprint(prints, prepared, list(members), 0, 1)
    prepared.close()
    assert prints.asked == asked
