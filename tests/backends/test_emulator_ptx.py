"""Inline PTX on the emulator: what the instructions compute, held against NumPy and the PTX ISA's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import Array, refuse, run
from matrix_factors import FP8, factor

from kcurate.backends.base import KernelFault
from kcurate.judge.checks.lexer import compiler_text

LANES = np.arange(32)
HEAD = "__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n"


def kernel(body: str, parameters: str = "unsigned *x, const unsigned *a") -> str:
    return f"{HEAD}__global__ void f({parameters})\n{{\nconst int t = threadIdx.x;\n{body}\n}}\n"


def each(asm: str, *inputs: Array, out: Any = np.uint32, letters: str = "rrrr") -> Array:
    """One instruction on every element: `%0` is the result, `%1`... the inputs."""
    count = len(inputs[0])
    types = {"r": "unsigned", "l": "unsigned long long", "f": "float", "d": "double", "h": "unsigned short"}
    given = ", ".join(f"const {types[letter]} *a{i}" for i, letter in enumerate(letters[1 : len(inputs) + 1]))
    used = ", ".join(f'"{letter}"(a{i}[t])' for i, letter in enumerate(letters[1 : len(inputs) + 1]))
    body = f'if (t < {count}) asm("{asm}" : "={letters[0]}"(x[t]) : {used});'
    code = kernel(body, f"{types[letters[0]]} *x, {given}")
    return run(code, np.zeros(count, out), *inputs, block=(count + 31) // 32 * 32)[0]


# Fragments, as the PTX ISA writes them: (row, column) of element i of a lane's registers.
def a_place(bits: int, lane: int, i: int) -> tuple[int, int]:
    group, thread = lane >> 2, lane % 4
    if bits == 16:
        return group + (8 if i % 4 >= 2 else 0), thread * 2 + (i & 1) + (8 if i >= 4 else 0)
    if bits == 8:
        return group + (8 if i % 8 >= 4 else 0), thread * 4 + (i & 3) + (16 if i >= 8 else 0)
    return group + (8 if i % 2 else 0), thread + (4 if i >= 2 else 0)


def b_place(bits: int, lane: int, i: int) -> tuple[int, int]:
    group, thread = lane >> 2, lane % 4
    if bits == 16:
        return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group
    if bits == 8:
        return thread * 4 + (i & 3) + (16 if i >= 4 else 0), group
    return thread + (4 if i else 0), group


def c_place(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def fragments(matrix: Array, place: Any, elements: int) -> Array:
    """Every lane's registers (32, r) uint32 of a matrix of raw elements."""
    held = np.array([[matrix[place(lane, i)] for i in range(elements)] for lane in LANES], matrix.dtype)
    return held.view(np.uint32).reshape(32, -1)


@pytest.mark.parametrize(
    ("k", "left", "right", "sums"),
    [
        (16, "f16", "f16", "f32"), (8, "f16", "f16", "f32"), (16, "f16", "f16", "f16"),
        (8, "f16", "f16", "f16"),
        (16, "bf16", "bf16", "f32"), (8, "bf16", "bf16", "f32"), (8, "tf32", "tf32", "f32"),
        (4, "tf32", "tf32", "f32"), (32, "s8", "s8", "s32"), (32, "u8", "s8", "s32"), (32, "u8", "u8", "s32"),
        (16, "s8", "u8", "s32"), (32, "e4m3", "e4m3", "f32"), (32, "e4m3", "e5m2", "f32"),
        (32, "e5m2", "e5m2", "f32"), (16, "e5m2", "e4m3", "f32"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1])
def test_mma_agrees_with_numpy(k: int, left: str, right: str, sums: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    bits = {"f16": 16, "bf16": 16, "tf32": 32}.get(left, 8)
    (a, a_values), (b, b_values) = factor(left, (16, k), random), factor(right, (k, 8), random)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[sums]
    c = (random.standard_normal((16, 8)) * 4).astype(dtype)
    held_a = fragments(a, lambda lane, i: a_place(bits, lane, i), 16 * k // 32)
    held_b = fragments(b, lambda lane, i: b_place(bits, lane, i), 8 * k // 32)
    held_c = fragments(c, c_place, 4)
    names = [f"%{i}" for i in range(2 * held_c.shape[1] + held_a.shape[1] + held_b.shape[1])]
    cut = np.cumsum([held_c.shape[1], held_a.shape[1], held_b.shape[1], held_c.shape[1]])
    vectors = [", ".join(part) for part in np.split(np.array(names), cut[:-1])]
    order = ", ".join(f"{{{vector}}}" for vector in vectors)
    outputs = ", ".join(f'"=r"(x[t * {cut[0]} + {i}])' for i in range(cut[0]))
    inputs = [
        f'"r"({name}[t * {held.shape[1]} + {i}])'
        for name, held in (("a", held_a), ("b", held_b), ("c", held_c))
        for i in range(held.shape[1])
    ]
    form = f"mma.sync.aligned.m16n8k{k}.row.col.{sums}.{left}.{right}.{sums}"
    body = f'asm("{form} {order};" : {outputs} : {", ".join(inputs)});'
    code = kernel(body, "unsigned *x, const unsigned *a, const unsigned *b, const unsigned *c")
    raw = run(code, np.zeros_like(held_c), held_a, held_b, held_c)[0]
    found = np.zeros((16, 8))
    for lane in LANES:
        for i, value in enumerate(raw[lane].view(dtype)):
            found[c_place(lane, i)] = value
    wanted = a_values @ b_values + c.astype(np.float64)
    if sums == "s32":
        assert np.array_equal(found, wanted)
    else:
        scale = np.abs(a_values) @ np.abs(b_values) + np.abs(c.astype(np.float64))
        assert (np.abs(found - wanted) <= scale * (2**-10 if sums == "f16" else 2**-21)).all()


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_8_bit_floats_are_decoded_by_their_definition(kind: str) -> None:
    codes = np.arange(256, dtype=np.uint32)
    asm = f"{{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.rn.f16x2.{kind}x2 %0, h; }}"
    found = each(asm, codes | 7 << 8).view(np.float16).reshape(-1, 2)
    assert np.array_equal(found[:, 0].astype(np.float64), FP8[kind], equal_nan=True)
    assert (found[:, 1] == np.float16(FP8[kind][7])).all()


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_8_bit_floats_are_the_nearest(kind: str) -> None:
    random = np.random.default_rng(3)
    table = FP8[kind]
    finite = np.flatnonzero(np.isfinite(table))
    ties = np.sort(table[finite])
    middle = ((ties[1:] + ties[:-1]) / 2).astype(np.float32)
    values = np.concatenate(
        [
            (random.standard_normal(500) * 10.0 ** random.integers(-6, 5, 500)).astype(np.float32),
            middle, np.array([1e30, -1e30, np.inf, -np.inf, 0.0, -0.0], np.float32),
        ]
    )[:1024]  # fmt: skip
    asm = f"{{ .reg .b16 h; cvt.rn.satfinite.{kind}x2.f32 h, 0f00000000, %1; cvt.u32.u16 %0, h; }}"
    found = each(asm, values, letters="rf") & 0xFF
    for value, code in zip(values, found, strict=True):
        distance = np.abs(table[finite] - np.clip(np.float64(value), ties[0], ties[-1]))
        best = finite[distance == distance.min()]
        nearest = {int(one) for one in best if one % 2 == 0 or len(set(table[best])) == 1}
        assert int(code) in nearest, value
    assert each(asm, np.array([np.nan], np.float32), letters="rf")[0] & 0xFF == 0x7F


def test_ldmatrix_reads_rows_and_columns() -> None:
    tile = np.arange(4 * 64, dtype=np.uint16)  # four matrices, row after row
    body = """__shared__ __align__(16) unsigned short s[4 * 64];
    for (int i = t; i < 128; i += 32) ((unsigned *)s)[i] = a[i];
    __syncwarp();
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at(s + 8 * t)));
    for (int i = 0; i < 4; i++) x[t * 4 + i] = r[i];"""
    for trans in ("", ".trans"):
        code = kernel(body.format(trans=trans))
        found = (
            run(code, np.zeros((32, 4), np.uint32), tile.view(np.uint32))[0].view(np.uint16).reshape(32, 4, 2)
        )
        matrices = tile.reshape(4, 8, 8)
        if trans:
            matrices = matrices.transpose(0, 2, 1)
        for lane in LANES:
            row, thread = lane // 4, lane % 4
            assert np.array_equal(found[lane], matrices[:, row, 2 * thread : 2 * thread + 2])


def test_stmatrix_writes_what_ldmatrix_reads_and_movmatrix_transposes() -> None:
    body = """__shared__ __align__(16) unsigned short s[64];
    unsigned r = a[t], moved, back;
    const unsigned row = at(s + 8 * (t % 8));
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" :: "r"(row), "r"(r));
    __syncwarp();
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(back) : "r"(row));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(moved) : "r"(r));
    x[2 * t] = moved; x[2 * t + 1] = back;"""
    given = np.arange(64, dtype=np.uint16).view(np.uint32)
    found = run(kernel(body), np.zeros((32, 2), np.uint32), given)[0]
    wanted = np.ascontiguousarray(np.arange(64, dtype=np.uint16).reshape(8, 8).T).view(np.uint32).reshape(-1)
    assert np.array_equal(found[:, 0], wanted)
    assert np.array_equal(found[:, 1], wanted)


BULK = """__shared__ __align__(128) unsigned s[2][256];
    __shared__ unsigned long long bar[2];
    if (t == 0) {
        for (int i = 0; i < 2; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&bar[i])));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    for (int step = 0; step < 4; step++) {
        const int at_ = step % 2;
        if (t == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(at(&bar[at_])));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1], %2, [%3];"
                :: "r"(at(s[at_])), "l"(a + 256 * step), "r"(1024), "r"(at(&bar[at_])) : "memory");
        }
        WAIT
        x[256 * step + t] = s[at_][t] * 2;
        __syncthreads();
    }"""
WAIT = r"""asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"
            :: "r"(at(&bar[at_])), "r"(step / 2 % 2));"""


def test_bulk_copies_arrive_when_they_are_waited_for() -> None:
    given = np.random.default_rng(0).integers(0, 1 << 30, 1024).astype(np.uint32)
    waited = run(kernel(BULK.replace("WAIT", WAIT)), np.zeros(1024, np.uint32), given, block=256)[0]
    assert np.array_equal(waited, given * 2)
    not_waited = run(kernel(BULK.replace("WAIT", "")), np.zeros(1024, np.uint32), given, block=256)[0]
    assert not np.array_equal(not_waited, given * 2)


def test_bulk_copies_to_global_memory() -> None:
    body = """__shared__ __align__(16) unsigned s[64];
    s[t] = a[t]; s[t + 32] = a[t + 32];
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
            :: "l"(x), "r"(at(s)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
        s[0] = 7;
    }"""
    given = np.arange(64, dtype=np.uint32) + 5
    assert np.array_equal(run(kernel(body), np.zeros(64, np.uint32), given)[0], given)


def test_cp_async_fills_with_zeros_and_waits_by_group() -> None:
    body = """__shared__ __align__(16) unsigned s[2][128];
    for (int i = 0; i < 4; i++) s[0][4 * t + i] = s[1][4 * t + i] = 9;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(&s[0][4 * t])), "l"(a + 4 * t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
        :: "r"(at(&s[1][4 * t])), "l"(a), "r"(t % 2 * 8));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" :: "n"(1));
    x[2 * t] = s[0][4 * t + 3]; x[2 * t + 64] = s[1][4 * t];
    asm volatile("cp.async.wait_all;");
    x[2 * t + 1] = s[1][4 * t + 1]; x[2 * t + 65] = s[1][4 * t + 2];"""
    given = np.arange(128, dtype=np.uint32) + 100
    found = run(kernel(body), np.zeros((2, 32, 2), np.uint32), given)[0]
    assert np.array_equal(found[0, :, 0], given[3::4])
    assert (found[1, :, 0] == 9).all()
    assert np.array_equal(found[0, :, 1], np.where(LANES % 2, 101, 0))
    assert (found[1, :, 1] == 0).all()


def test_an_mbarrier_counts_phases() -> None:
    body = """__shared__ unsigned long long bar;
    unsigned long long before;
    unsigned over[3];
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(&bar)), "r"(64));
    __syncthreads();
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1; selp.u32 %0, 1, 0, p;}"
        : "=r"(over[0]) : "r"(at(&bar)));
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(before) : "r"(at(&bar)));
    if (t == 63) asm volatile(
        "{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(over[1]) : "r"(at(&bar)), "l"(before));
    asm volatile(
        "{.reg .pred p; L: mbarrier.try_wait.shared.b64 p, [%1], %2; @!p bra L; selp.u32 %0, 1, 0, p;}"
        : "=r"(over[2]) : "r"(at(&bar)), "l"(before));
    x[t] = over[0] + 2 * over[2];"""
    found = run(kernel(body), np.zeros(64, np.uint32), np.zeros(1, np.uint32), block=64)[0]
    assert (found == 3).all()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&bar)));', "not initialised"),
        ('asm volatile("mbarrier.init.shared.b64 [%0], 0;" :: "r"(at(&bar)));', "cannot hold"),
        (
            'asm volatile("mbarrier.init.shared.b64 [%0], 2; mbarrier.arrive.shared.b64 _, [%0], 3;"'
            ' :: "r"(at(&bar)));',
            "more arrivals",
        ),
        ('asm volatile("bar.sync 1, 64;");', "1 at named barriers"),
        ('asm volatile("bar.sync 1, 33;");', "barrier number or count"),
        ('asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x[0]) : "r"(5));', "outside shared memory"),
        (
            'asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "l"(a + 1));',
            "misaligned",
        ),
        ('asm volatile("cp.async.bulk.commit_group; trap;");', "trap"),
    ],
)
@pytest.mark.parametrize("again", [0, 1])
def test_misuse_ends_the_run(body: str, why: str, again: int) -> None:
    code = kernel(f"__shared__ unsigned long long bar; if (t == {again}) {{ {body} }}")
    with pytest.raises(KernelFault, match=why):
        run(code, np.zeros(2, np.uint32), np.zeros(4, np.uint32))


def test_what_is_not_emulated_ends_a_run_only_where_it_is_reached() -> None:
    body = """if (a[0])
        asm volatile("tld4.r.2d.v4.f32.f32 {%0, %0, %0, %0}, [%1, {%0, %0}];" : "+r"(x[0]) : "l"(a));
    #if __CUDA_ARCH__ < 300
    asm volatile("no.such.thing;");
    #endif
    x[t] = 3;"""
    assert (run(kernel(body), np.zeros(32, np.uint32), np.zeros(1, np.uint32))[0] == 3).all()
    with pytest.raises(KernelFault, match=r"tld4\.r\.2d\.v4\.f32\.f32") as caught:
        run(kernel(body), np.zeros(32, np.uint32), np.ones(1, np.uint32))
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize(
    ("header", "used", "reason"),
    [
        ("cuda/ptx", "cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release);", "unsupported"),
        ("cub/block/block_shuffle.cuh", "cub::BlockShuffle<int, 32> s;", "unsupported"),
        ("stdio.h", "", "error"),
    ],
)
def test_headers_that_only_a_gpu_compiles_are_unsupported(header: str, used: str, reason: str) -> None:
    made = refuse(f"#include <{header}>\n__global__ void f() {{ {used} }}")
    assert made.reason == reason and header in made.log


def test_such_a_header_is_named_in_a_file_with_carriage_returns() -> None:
    code = "#include <cuda/ptx>\r\n__global__ void f() { cuda::ptx::fence_mbarrier_init(0); }"
    made = refuse(compiler_text(code))
    assert made.reason == "unsupported" and "cuda/ptx" in made.log


def test_such_a_header_may_stand_there_unused() -> None:
    code = f"#include <cuda_fp8.h>\n#include <cuda/ptx>\n{kernel('x[t] = a[t] + 1;')}"
    found = run(code, np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32))[0]
    assert np.array_equal(found, np.arange(32) + 1)


def test_named_barriers_hand_data_from_warp_to_warp() -> None:
    body = """__shared__ unsigned s[32];
    if (t < 32) {
        for (int i = 0; i < 3; i++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            s[t] = a[t] + i;
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    } else {
        for (int i = 0; i < 3; i++) {
            asm volatile("barrier.arrive 1, 64;" ::: "memory");
            asm volatile("barrier.sync 2, 64;" ::: "memory");
            x[32 * i + 63 - t] = s[63 - t];
        }
    }"""
    given = np.arange(32, dtype=np.uint32) * 10
    found = run(kernel(body), np.zeros((3, 32), np.uint32), given, block=64)[0]
    assert np.array_equal(found, given + np.arange(3, dtype=np.uint32)[:, None])


def test_barrier_0_is_syncthreads() -> None:
    body = """__shared__ unsigned s[64];
    s[t] = a[t];
    if (t < 32) __syncthreads(); else asm volatile("bar.sync 0COUNT;" ::: "memory");
    x[t] = s[63 - t];"""
    given = np.arange(64, dtype=np.uint32)
    for count in ("", ", 64"):
        code = kernel(body.replace("COUNT", count))
        assert np.array_equal(run(code, np.zeros(64, np.uint32), given, block=64)[0], given[::-1])


RANDOM = np.random.default_rng(7)
WORDS = RANDOM.integers(0, 1 << 32, (3, 256), dtype=np.uint32)
FLOATS = (RANDOM.standard_normal((3, 256)) * 100).astype(np.float32)


def apart(a: Array, b: Array, kind: type) -> Array:
    """The absolute differences of the four bytes of each word, (words, 4)."""
    return abs(a.view(kind).astype(int) - b.view(kind)).astype(np.uint8).reshape(-1, 4)


@pytest.mark.parametrize(
    ("asm", "wanted"),
    [
        ("add.u32 %0, %1, %2;", lambda a, b, c: a + b),
        ("sub.s32 %0, %1, %2;", lambda a, b, c: a - b),
        ("mul.hi.u32 %0, %1, %2;", lambda a, b, c: (a.astype(np.uint64) * b >> 32).astype(np.uint32)),
        ("mad.lo.u32 %0, %1, %2, %3;", lambda a, b, c: a * b + c),
        ("max.s32 %0, %1, %2;",
         lambda a, b, c: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32)),
        ("min.u32 %0, %1, %2;", lambda a, b, c: np.minimum(a, b)),
        ("lop3.b32 %0, %1, %2, %3, 0xEA;", lambda a, b, c: (a & b) | c),
        ("lop3.b32 %0, %1, %2, %3, 0x96;", lambda a, b, c: a ^ b ^ c),
        ("vabsdiff4.u32.u32.u32 %0, %1, %2, %3;",
         lambda a, b, c: apart(a, b, np.uint8).view(np.uint32).reshape(-1)),
        ("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;",
         lambda a, b, c: c + apart(a, b, np.uint8).sum(1, dtype=np.uint32)),
        ("vabsdiff4.s32.s32.s32.add %0, %1, %2, %3;",
         lambda a, b, c: c + apart(a, b, np.int8).sum(1, dtype=np.uint32)),
        ("prmt.b32 %0, %1, %2, 0x5410;", lambda a, b, c: (a & 0xFFFF) | b << 16),
        ("prmt.b32 %0, %1, %1, 0xbb99;",
         lambda a, b, c: (a >> 31) * np.uint32(0xFFFF0000) | (a >> 15 & 1) * np.uint32(0xFFFF)),
        ("shf.l.wrap.b32 %0, %1, %2, 8;", lambda a, b, c: b << 8 | a >> 24),
        ("shf.r.wrap.b32 %0, %1, %2, 8;", lambda a, b, c: b << 24 | a >> 8),
        ("shr.s32 %0, %1, 5;", lambda a, b, c: (a.view(np.int32) >> 5).view(np.uint32)),
        ("shl.b32 %0, %1, 40;", lambda a, b, c: a * 0),
        ("bfe.u32 %0, %1, 4, 8;", lambda a, b, c: a >> 4 & 255),
        ("bfe.s32 %0, %1, 4, 8;", lambda a, b, c: ((a << 20).view(np.int32) >> 24).view(np.uint32)),
        ("bfi.b32 %0, %1, %2, 8, 4;", lambda a, b, c: (b & ~np.uint32(0xF00)) | (a & 15) << 8),
        ("popc.b32 %0, %1;", lambda a, b, c: np.bitwise_count(a).astype(np.uint32)),
        ("{.reg .pred p; setp.lt.s32 p, %1, %2; selp.b32 %0, %1, %2, p;}",
         lambda a, b, c: np.where(a.view(np.int32) < b.view(np.int32), a, b)),
        ("{.reg .pred p, q; setp.hi.u32 q, %2, %3; setp.lo.and.u32 p, %1, %2, q;"
         "@p mov.b32 %0, %3; @!p mov.b32 %0, 1;}",
         lambda a, b, c: np.where((a < b) & (b > c), c, 1)),
        ("{.reg .b32 t; add.cc.u32 t, %1, %2; addc.u32 %0, %3, 0;}",
         lambda a, b, c: c + (a.astype(np.uint64) + b >> 32).astype(np.uint32)),
        ("{.reg .b64 l; .reg .b32 t; mul.wide.u32 l, %1, %2; mov.b64 {%0, t}, l; xor.b32 %0, %0, t;}",
         lambda a, b, c: (a.astype(np.uint64) * b).astype(np.uint32) ^ (a.astype(np.uint64) * b >> 32)),
        ("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo};}",
         lambda a, b, c: a << 16 | a >> 16),
    ],
)  # fmt: skip
def test_integer_instructions(asm: str, wanted: Any) -> None:
    assert np.array_equal(each(asm, *WORDS), wanted(*WORDS))


@pytest.mark.parametrize(
    ("asm", "wanted"),
    [
        ("fma.rn.f32 %0, %1, %2, %3;", lambda a, b, c: (a.astype(np.float64) * b + c).astype(np.float32)),
        ("add.f32 %0, %1, 0f3F800000;", lambda a, b, c: a + np.float32(1)),
        ("mul.f32 %0, %1, 1.5;", lambda a, b, c: a * np.float32(1.5)),
        ("add.sat.f32 %0, %1, %2;", lambda a, b, c: np.clip(a + b, 0, 1)),
        ("rcp.approx.ftz.f32 %0, %1;", lambda a, b, c: 1 / a),
        ("ex2.approx.ftz.f32 %0, %1;", lambda a, b, c: np.exp2(a)),
        ("max.f32 %0, %1, %2;", lambda a, b, c: np.fmax(a, b)),
        ("copysign.f32 %0, %1, %2;", lambda a, b, c: np.copysign(b, a)),
        ("cvt.rzi.f32.f32 %0, %1;", lambda a, b, c: np.trunc(a)),
        (
            "cvt.rna.tf32.f32 %0, %1;",
            lambda a, b, c: (a.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32),
        ),
    ],
)
def test_float_instructions(asm: str, wanted: Any) -> None:
    with np.errstate(over="ignore"):
        found = each(asm, *FLOATS, out=np.float32, letters="ffff")
        assert np.allclose(found, wanted(*FLOATS), rtol=3e-7, atol=2e-38)


def test_flushing_and_nan() -> None:
    small = np.array([1e-40, -1e-40, np.nan, 3.0], np.float32)
    flushed = each("mul.ftz.f32 %0, %1, 0f3F800000;", small, out=np.float32, letters="ff")
    assert np.array_equal(flushed, [0, -0.0, np.nan, 3], equal_nan=True) and np.signbit(flushed[1])
    kept = each("mul.f32 %0, %1, 0f3F800000;", small, out=np.float32, letters="ff")
    assert np.array_equal(kept, small, equal_nan=True)
    other = np.ones(4, np.float32)
    assert not np.isnan(each("max.f32 %0, %1, %2;", small, other, out=np.float32, letters="fff")).any()
    assert np.isnan(each("max.NaN.f32 %0, %1, %2;", small, other, out=np.float32, letters="fff")[2])
    for name, answer in (("ne", 0), ("neu", 1), ("lt", 0), ("ltu", 1), ("num", 0), ("nan", 1)):
        asm = f"{{.reg .pred p; setp.{name}.f32 p, %1, %2; selp.b32 %0, 1, 0, p;}}"
        assert each(asm, small, other, letters="rff")[2] == answer


def test_conversions_saturate_and_round() -> None:
    values = np.array([2.5, -2.5, 3e9, -3e9, np.nan, 0.4], np.float32)
    found = each("cvt.rni.s32.f32 %0, %1;", values, letters="rf").view(np.int32)
    assert found.tolist() == [2, -2, 2**31 - 1, -(2**31), 0, 0]
    found = each("cvt.rpi.u32.f32 %0, %1;", values, letters="rf")
    assert found.tolist() == [3, 0, 3000000000, 0, 0, 1]
    pairs = each("cvt.rn.f16x2.f32 %0, %1, %2;", FLOATS[0], FLOATS[1], letters="rff").view(np.float16)
    assert np.array_equal(pairs.reshape(-1, 2), np.stack([FLOATS[1], FLOATS[0]], 1).astype(np.float16))
    pairs = each("cvt.rn.bf16x2.f32 %0, %1, %2;", FLOATS[0], FLOATS[1], letters="rff")
    upper = (pairs & 0xFFFF0000).view(np.float32)
    assert np.allclose(upper, FLOATS[0], rtol=2**-8) and (pairs != FLOATS[0].view(np.uint32)).any()


def test_half_pairs() -> None:
    a, b, c = (FLOATS.astype(np.float16).reshape(3, -1)).view(np.uint32)
    halves = [one.view(np.float16).astype(np.float64) for one in (a, b, c)]
    found = each("fma.rn.f16x2 %0, %1, %2, %3;", a, b, c).view(np.float16)
    assert np.array_equal(found, (halves[0] * halves[1] + halves[2]).astype(np.float16))
    found = each("max.f16x2 %0, %1, %2;", a, b).view(np.float16)
    assert np.array_equal(found, np.maximum(halves[0], halves[1]).astype(np.float16))


@pytest.mark.parametrize(
    ("asm", "source"),
    [
        (
            "shfl.sync.up.b32 %0, %1, 3, 0, -1;",
            [max(lane - 3, lane if lane < 3 else 0) for lane in range(32)],
        ),
        ("shfl.sync.down.b32 %0, %1, 3, 31, -1;", [lane + 3 if lane < 29 else lane for lane in range(32)]),
        ("shfl.sync.bfly.b32 %0, %1, 5, 31, -1;", [lane ^ 5 for lane in range(32)]),
        ("shfl.sync.idx.b32 %0, %1, 2, 0x181f, -1;", [lane // 8 * 8 + 2 for lane in range(32)]),
        (
            "shfl.sync.down.b32 %0, %1, 1, 0x1c1f, -1;",
            [lane if lane % 4 == 3 else lane + 1 for lane in range(32)],
        ),
    ],
)
def test_shuffles(asm: str, source: list[int]) -> None:
    given = WORDS[0, :32]
    assert np.array_equal(each(asm, given), given[source])


def test_lanes_vote_and_elect() -> None:
    given = WORDS[0, :32]
    odd = int(sum(1 << int(lane) for lane in LANES if given[lane] & 1))
    setp = "{.reg .pred p; .reg .b32 t; and.b32 t, %1, 1; setp.eq.u32 p, t, 1; "
    assert (each(setp + "vote.sync.ballot.b32 %0, p, -1; }", given) == odd).all()
    assert (each("redux.sync.max.u32 %0, %1, -1;", given) == given.max()).all()
    assert (
        each("{ .reg .b32 t; and.b32 t, %1, 15; redux.sync.add.s32 %0, t, -1; }", given) == (given & 15).sum()
    ).all()
    found = each("{.reg .pred p; elect.sync %0|p, -1; @p add.u32 %0, %0, 100; }", given)
    assert sorted(found)[-1] == found[0] + 0 and (found[1:] == found[0] - 100).all()


def test_atomics_and_cache_hints() -> None:
    body = """unsigned old;
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" :: "l"(x), "r"(t + 1) : "memory");
    asm volatile("atom.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(x + 1), "r"(t - 5) : "memory");
    asm volatile("atom.global.cas.b32 %0, [%1 + 8], 0, %2;" : "=r"(old) : "l"(x), "r"(t + 9) : "memory");
    __syncthreads();
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]) : "l"(a), "l"(policy));
    asm volatile("st.global.L1::no_allocate.u32 [%0 + 32], %1;" :: "l"(x), "r"(77) : "memory");"""
    found = run(kernel(body), np.zeros(9, np.uint32), np.arange(4, dtype=np.uint32))[0]
    assert found.tolist()[:2] == [528, 26] and 9 <= found[2] <= 40
    assert found.tolist()[4:] == [0, 1, 2, 3, 77]


def test_asm_in_macros_templates_and_branches() -> None:
    code = (
        HEAD
        + r"""
    #define ADD(to, one, other) asm("add.u32 %0, %1, %2;" : "=r"(to) \
        : "r"(one), "r"(other))
    template <int N, class T> __device__ T shifted(T x)
    {
        T y;
        if (N > 3) asm("{ .reg .pred p; setp.eq.u32 p, %1, 0; @p bra L; shl.b32 %0, %1, %2; L: }"
            : "=r"(y) : "r"(x), "n"(N));
        else asm("mov.u32 %0, %1;" : "=r"(y) : "r"(x));
        return y;
    }
    __global__ void f(unsigned *x, const unsigned *a)
    {
        unsigned sum = 0, twice;
        if (threadIdx.x & 1) ADD(sum, a[0], shifted<4>(a[1])); else ADD(sum, a[0], shifted<2>(a[1]));
        ADD(twice, sum, sum);
        asm volatile("" : "+r"(twice) :: "memory");
        x[threadIdx.x] = twice;
    }"""
    )
    found = run(compiler_text(code), np.zeros(32, np.uint32), np.array([5, 6], np.uint32))[0]
    assert np.array_equal(found, np.where(LANES & 1, 2 * (5 + 96), 2 * 11))


VALUES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "f16x2": np.float16}


def raw_values(kind: str, count: int, seed: int) -> tuple[Array, Array]:
    """Random numbers of a PTX type, as they lie in memory and as float64."""
    values = np.random.default_rng(seed).uniform(-4, 4, count)
    if kind.startswith("bf16"):
        held = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return held, bfloat16(held)
    return (held := values.astype(VALUES[kind])), held.astype(np.float64)


def bfloat16(raw: Array) -> Array:
    return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def nearest(kind: str, exact: Array) -> Array:
    """The numbers of a PTX type that are nearest to exact ones, as float64; ties go to even."""
    if not kind.startswith("bf16"):
        return exact.astype(VALUES[kind]).astype(np.float64)
    raw = exact.astype(np.float32).view(np.uint32).astype(np.uint64)  # exact: 24 bits hold such sums
    return bfloat16(((raw + 0x7FFF + (raw >> 16 & 1)) >> 16).astype(np.uint16))


LETTERS = {"f32": "f", "f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r"}


@pytest.mark.parametrize(
    ("opcode", "kind", "count"),
    [
        ("red.global.add.v4.f32", "f32", 4),
        ("red.relaxed.gpu.global.add.v2.f32", "f32", 2),
        ("red.v4.f32.add", "f32", 4),
        ("red.global.v4.f32.add", "f32", 4),
        ("red.global.add.noftz.f16x2", "f16x2", 1),
        ("red.global.add.noftz.bf16", "bf16", 1),
        ("red.global.add.noftz.v2.f16x2", "f16x2", 2),
        ("red.global.add.noftz.v4.bf16x2", "bf16x2", 4),
        ("red.global.max.noftz.v4.f16x2", "f16x2", 4),
        ("red.global.min.noftz.v8.bf16", "bf16", 8),
        ("red.global.add.noftz.v8.f16", "f16", 8),
        ("red.global.v4.f16x2.add.noftz", "f16x2", 4),
    ],
)
def test_reductions_of_vectors_in_memory_are_exact(opcode: str, kind: str, count: int) -> None:
    each_holds = 2 if kind.endswith("x2") else 1
    (held, before), (added, terms) = (raw_values(kind, count * each_holds, seed) for seed in (1, 2))
    letter = LETTERS[kind]
    types = {"f": "float", "h": "unsigned short", "r": "unsigned"}[letter]
    place = ", ".join(f"%{i + 1}" for i in range(count))
    place = f"{{{place}}}" if any(part in opcode for part in (".v2", ".v4", ".v8")) else place
    given = ", ".join(f'"{letter}"(a[{i}])' for i in range(count))
    body = f'if (t == 0) asm volatile("{opcode} [%0], {place};" :: "l"(x), {given} : "memory");'
    out, *_ = run(kernel(body, f"{types} *x, const {types} *a"), held, added)
    operation = {"add": np.add, "min": np.minimum, "max": np.maximum}[
        next(part for part in opcode.split(".") if part in ("add", "min", "max"))
    ]
    found = bfloat16(out) if kind.startswith("bf16") else out.astype(np.float64)
    assert np.array_equal(found, nearest(kind, operation(before, terms)))


def test_an_atomic_of_a_vector_returns_what_was_there() -> None:
    body = """if (t == 0)
        asm volatile("atom.global.add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, 0f3F800000, 2.5, %5};"
        : "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]) : "l"(x), "f"(a[0]) : "memory");"""
    before = np.arange(8, dtype=np.float32)
    out, *_ = run(kernel(body, "float *x, const float *a"), before, np.float32([0.5]))
    assert out.tolist() == [0.5, 2.0, 4.5, 3.5, 0.0, 1.0, 2.0, 3.0]


def test_a_vector_that_is_not_aligned_as_a_whole_is_a_fault() -> None:
    body = """if (t == 0) asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};"
        :: "l"(x + 2), "f"(a[0]) : "memory");"""
    with pytest.raises(KernelFault, match="misaligned"):
        run(kernel(body, "float *x, const float *a"), np.zeros(8, np.float32), np.ones(1, np.float32))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "min", "max", "fma.rn", "neg", "abs"])
@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_packed_arithmetic_is_exact(name: str, kind: str) -> None:
    """Every half is rounded once, from the exact result."""
    operations: dict[str, Any] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
        "fma.rn": lambda a, b, c: a * b + c, "neg": np.negative, "abs": np.abs,
    }  # fmt: skip
    count = {"fma.rn": 3, "neg": 1, "abs": 1}.get(name, 2)
    raw, exact = zip(*(raw_values(kind, 64, seed) for seed in range(count)), strict=True)
    asm = f"{name}.{kind} %0, {', '.join(f'%{i + 1}' for i in range(count))};"
    out = each(asm, *(one.view(np.uint32) for one in raw))
    found = bfloat16(out.view(np.uint16)) if kind == "bf16x2" else out.view(np.float16).astype(np.float64)
    assert np.array_equal(found, nearest(kind, operations[name](*exact)))


def test_flushing_turns_subnormal_halves_into_zeros() -> None:
    """`.ftz` of f16 acts below 2^-14 (PTX ISA, `add`), on what is read and on what is written."""
    tiny = np.float16([2**-15, -(2**-16), 2**-14, 1.0]).view(np.uint32)
    out = each("add.ftz.f16x2 %0, %1, %2;", tiny, np.zeros(2, np.uint32)).view(np.float16)
    assert out.tolist() == [0.0, 0.0, 2**-14, 1.0]
    assert each("mul.ftz.f16x2 %0, %1, %2;", tiny, np.float16([1] * 4).view(np.uint32))[0] == 0x80000000
