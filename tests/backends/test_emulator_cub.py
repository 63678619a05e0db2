"""CUB's block and warp collectives on the emulator; NVRTC compiles the same programs with CUB itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from emulation import Program, run

from kcurate.backends.base import Compiled, EntryPoint, KernelFault

HEADERS = (
    *(f"block/block_{name}" for name in ("discontinuity", "exchange", "histogram", "load")),
    *(f"block/block_{name}" for name in ("radix_sort", "reduce", "scan", "store")),
    "warp/warp_reduce",
    "warp/warp_scan",
)
HEAD = "".join(f"#include <cub/{name}.cuh>\n" for name in HEADERS) + (
    "#include <cuda/functional>\n#include <cuda/std/functional>\n"
)
RNG = np.random.default_rng(1)
N = 128


def kernel(body: str, kind: str = "int", head: str = "") -> str:
    return (
        f"{HEAD}{head}\n__global__ void f({kind} *x, const {kind} *a)\n{{\n"
        f"const int t = threadIdx.x; (void)t;\n{body}\n}}\n"
    )


def left(
    body: str, a: np.ndarray, kind: str = "int", block: int | tuple[int, int, int] = N, head: str = ""
) -> np.ndarray:
    """What a kernel leaves in `x`, which starts as zeros like `a`."""
    return run(kernel(body, kind, head), np.zeros_like(a), a, block=block)[0]


A = RNG.integers(-99, 99, 4 * N).astype(np.int32)


def block(kind: str) -> str:
    return f"typedef cub::{kind} B; __shared__ typename B::TempStorage s; "


def warp(kind: str, count: int) -> str:
    return (
        f"typedef cub::{kind} W; __shared__ typename W::TempStorage s[{count}]; W w(s[t / {128 // count}]); "
    )


REDUCE, SCAN = block("BlockReduce<int, 128>"), block("BlockScan<int, 128>")
EXCHANGE, CUT = block("BlockExchange<int, 128, 4>"), block("BlockDiscontinuity<int, 128>")
# The affine maps x -> a x + b under composition: associative, and their order matters.
AFFINE = """struct M { int a, b; };
struct Compose {
    __device__ M operator()(const M &f, const M &g) const { return M{f.a * g.a, f.b * g.a + g.b}; }
};
"""
FOUR = "int v[4]; for (int i = 0; i < 4; i++) v[i] = a[4 * t + i]; "
OUT = " for (int i = 0; i < 4; i++) x[4 * t + i] = v[i];"


def at_first(value: object) -> np.ndarray:
    x = np.zeros_like(A)
    x[0] = value
    return x


def shown(values: np.ndarray) -> np.ndarray:
    x = np.zeros_like(A)
    x[: len(values)] = values
    return x


def exclusive(values: np.ndarray, first: int = 0) -> np.ndarray:
    return np.concatenate([[first], first + np.cumsum(values)[:-1]])


V = A[:N]
BLOCKED = A.reshape(N, 4)
WARP = V.reshape(-1, 32)
PARTS = V.reshape(-1, 8)

FIRST = " if (t == 0) x[0] = r;"
ODD = "int h[4], u[4]; (void)u; for (int i = 0; i < 4; i++) v[i] &= 1; "
BACKWARDS = "int r[4]; for (int i = 0; i < 4; i++) r[i] = 511 - (4 * t + i); "
BINS = "for (int i = 0; i < 4; i++) v[i] += 100; __shared__ unsigned h[256]; "
COUNTS = " __syncthreads(); for (int i = t; i < 256; i += 128) x[i] = h[i];"
PAIRS = """typedef cub::KeyValuePair<int, int> P; typedef cub::BlockReduce<P, 128> B;
__shared__ typename B::TempStorage s; """
FOUND = " if (t == 0) { x[0] = r.value; x[1] = r.key; }"
RUNNING = """struct Running {
    int sum;
    __device__ int operator()(int all) { int old = sum; sum += all; return old; }
};
Running prefix{7};
for (int tile = 0; tile < 4; tile++) {
    int r;
    B(s).ExclusiveSum(a[128 * tile + t], r, prefix);
    x[128 * tile + t] = r;
    __syncthreads();
}"""
SHARED = """typedef cub::BlockReduce<int, 128> R; typedef cub::BlockScan<int, 128> S;
__shared__ union { typename R::TempStorage r; typename S::TempStorage s; } both;
__shared__ int all;
const int sum = R(both.r).Sum(a[t]); if (t == 0) all = sum;
__syncthreads();
int before; S(both.s).ExclusiveSum(a[t], before); x[t] = before + all;"""
TWO_CALLS = """auto larger = [](int p, int q) { return p > q ? p : q; };
B reduce(s); int r = reduce.Reduce(a[t], larger); __syncthreads();
r = 1000 * r + reduce.Reduce(a[128 + t], larger, 128);"""
SHIFTED = np.hstack([np.full((16, 1), -3), PARTS[:, :-1]])

REDUCTIONS: dict[str, tuple[str, object]] = {
    "sum": ("const int r = B(s).Sum(a[t]);", V.sum()),
    "sum, own storage": ("const int r = B().Sum(a[t]); (void)s;", V.sum()),
    "sum of the first": ("const int r = B(s).Sum(a[t], 77);", V[:77].sum()),
    "sum of arrays": (FOUR + "const int r = B(s).Sum(v);", A.sum()),
    "max": ("const int r = B(s).Reduce(a[t], cuda::maximum<>{});", V.max()),
    "min of arrays": (FOUR + "const int r = B(s).Reduce(v, cuda::minimum<>{});", A.min()),
    "a lambda, in two calls": (TWO_CALLS, 1000 * V.max() + A[N : 2 * N].max()),
}
CASES: dict[str, tuple[str, object]] = {
    **{name: (REDUCE + body + FIRST, at_first(wanted)) for name, (body, wanted) in REDUCTIONS.items()},
    "raking": (
        block("BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING>") + "const int r = B(s).Sum(a[t]);" + FIRST,
        at_first(V.sum()),
    ),
    "the largest and where": (
        PAIRS + "const P r = B(s).Reduce(P(t, a[t]), cub::ArgMax());" + FOUND,
        shown(np.array([V.max(), V.argmax()])),
    ),
    "the smallest and where": (
        PAIRS + "P p; p.key = t; p.value = a[t]; const P r = B(s).Reduce(p, cub::ArgMin());" + FOUND,
        shown(np.array([V.min(), V.argmin()])),
    ),
    "one storage for several": (SHARED, shown(exclusive(V) + V.sum())),
    "exclusive sum": (SCAN + "int r; B(s).ExclusiveSum(a[t], r); x[t] = r;", shown(exclusive(V))),
    "exclusive sum and total": (
        SCAN + "int r, all; B(s).ExclusiveSum(a[t], r, all); x[t] = r + 3 * all;",
        shown(exclusive(V) + 3 * V.sum()),
    ),
    "inclusive sum": (SCAN + "int r = a[t]; B(s).InclusiveSum(r, r); x[t] = r;", shown(np.cumsum(V))),
    "inclusive sum and total": (
        SCAN + "int r, all; B(s).InclusiveSum(a[t], r, all); x[t] = r - all;",
        shown(np.cumsum(V) - V.sum()),
    ),
    "exclusive sum of arrays": (SCAN + FOUR + "B(s).ExclusiveSum(v, v);" + OUT, exclusive(A)),
    "inclusive sum of arrays and total": (
        SCAN + FOUR + "int all; B(s).InclusiveSum(v, v, all); v[0] += all;" + OUT,
        np.cumsum(A) + np.tile([A.sum(), 0, 0, 0], N),
    ),
    "exclusive max": (
        SCAN + "int r; B(s).ExclusiveScan(a[t], r, -50, cuda::maximum<>{}); x[t] = r;",
        shown(np.maximum.accumulate(np.concatenate([[-50], V[:-1]]))),
    ),
    "exclusive max without a start": (
        SCAN + "int r, all; B(s).ExclusiveScan(a[t], r, cuda::maximum<>{}, all); x[t] = t ? r : all;",
        shown(np.concatenate([[V.max()], np.maximum.accumulate(V)[:-1]])),
    ),
    "inclusive max of arrays": (
        SCAN + FOUR + "B(s).InclusiveScan(v, v, cuda::maximum<>{});" + OUT,
        np.maximum.accumulate(A),
    ),
    "inclusive max of arrays from a start": (
        SCAN + FOUR + "B(s).InclusiveScan(v, v, 55, cuda::maximum<>{});" + OUT,
        np.maximum(np.maximum.accumulate(A), 55),
    ),
    "tiles with a running prefix": (SCAN + RUNNING, exclusive(A, 7)),
    "warp scans": (
        block("BlockScan<int, 128, cub::BLOCK_SCAN_WARP_SCANS>")
        + "int r; B(s).InclusiveSum(a[t], r); x[t] = r;",
        shown(np.cumsum(V)),
    ),
    "warp sum": (
        warp("WarpReduce<int>", 4) + "const int r = w.Sum(a[t]); if (t % 32 == 0) x[t / 32] = r;",
        shown(WARP.sum(1)),
    ),
    "warp sum of the first": (
        warp("WarpReduce<int>", 4) + "const int r = w.Sum(a[t], 9); if (t % 32 == 0) x[t / 32] = r;",
        shown(WARP[:, :9].sum(1)),
    ),
    "max of eight lanes": (
        warp("WarpReduce<int, 8>", 16)
        + "const int r = w.Reduce(a[t], cuda::maximum<>{}); if (t % 8 == 0) x[t / 8] = r;",
        shown(PARTS.max(1)),
    ),
    "one warp of several": (
        warp("WarpReduce<int>", 4) + "if (t < 32) { const int r = w.Sum(a[t]); if (t == 0) x[0] = r; }",
        at_first(WARP[0].sum()),
    ),
    "sums of segments by head": (
        warp("WarpReduce<int>", 4)
        + "const int r = w.HeadSegmentedSum(a[t], t % 4 == 0); if (t % 4 == 0) x[t / 4] = r;",
        shown(V.reshape(-1, 4).sum(1)),
    ),
    "sums of segments by tail": (
        warp("WarpReduce<int>", 4)
        + "const int r = w.TailSegmentedSum(a[t], t % 4 == 3); if (t % 4 == 0) x[t / 4] = r;",
        shown(V.reshape(-1, 4).sum(1)),
    ),
    "warp scans of sums": (
        warp("WarpScan<int>", 4) + "int p, q, all; w.InclusiveSum(a[t], p, all); w.ExclusiveSum(a[t], q);"
        "x[t] = p + 5 * q + 7 * all;",
        shown((np.cumsum(WARP, 1) * 6 - 5 * WARP + 7 * WARP.sum(1, keepdims=True)).ravel()),
    ),
    "warp scans of eight lanes": (
        warp("WarpScan<int, 8>", 16) + "int p, q; w.InclusiveScan(a[t], p, cuda::maximum<>{});"
        "w.ExclusiveScan(a[t], q, -3, cuda::minimum<>{}); x[t] = p + 500 * q + w.Broadcast(a[t], 2);",
        shown(
            (
                np.maximum.accumulate(PARTS, 1) + 500 * np.minimum.accumulate(SHIFTED, 1) + PARTS[:, 2:3]
            ).ravel()
        ),
    ),
    "striped to blocked": (EXCHANGE + FOUR + "B(s).StripedToBlocked(v, v);" + OUT, BLOCKED.T.ravel()),
    "blocked to striped": (EXCHANGE + FOUR + "B(s).BlockedToStriped(v);" + OUT, A.reshape(4, N).T.ravel()),
    "blocked to warp-striped": (
        EXCHANGE + FOUR + "B(s).BlockedToWarpStriped(v, v);" + OUT,
        A.reshape(4, 4, 32).transpose(0, 2, 1).ravel(),
    ),
    "scattered": (EXCHANGE + FOUR + BACKWARDS + "B(s).ScatterToBlocked(v, r);" + OUT, A[::-1]),
    "scattered to striped": (
        EXCHANGE + FOUR + BACKWARDS + "B(s).ScatterToStriped(v, v, r);" + OUT,
        A[::-1].reshape(4, N).T.ravel(),
    ),
    "scattered, some left out": (
        EXCHANGE + FOUR + BACKWARDS + "B(s).ScatterToBlocked(v, r); __syncthreads();"
        "if (t & 1) for (int i = 0; i < 4; i++) r[i] = -1;"
        "int u[4]; B(s).ScatterToStripedGuarded(v, u, r);"
        "for (int i = 0; i < 4; i++) x[4 * t + i] = (511 - (t + 128 * i)) / 4 % 2 ? 0 : u[i];",
        np.where(np.arange(4 * N)[::-1] // 4 % 2, 0, A).reshape(4, N).T.ravel(),
    ),
    "histogram": (
        block("BlockHistogram<int, 128, 4, 256>") + FOUR + BINS + "B(s).Histogram(v, h);" + COUNTS,
        shown(np.bincount(A + 100, minlength=256)),
    ),
    "histogram by atomics": (
        block("BlockHistogram<int, 128, 4, 256, cub::BLOCK_HISTO_ATOMIC>")
        + (FOUR + BINS + "B(s).InitHistogram(h); __syncthreads(); B(s).Composite(v, h);" + COUNTS),
        shown(np.bincount(A + 100, minlength=256)),
    ),
    "heads": (
        CUT + FOUR + ODD + "B(s).FlagHeads(h, v, cuda::std::not_equal_to<>{});"
        "for (int i = 0; i < 4; i++) v[i] = h[i];" + OUT,
        np.concatenate([[1], (A[1:] & 1) != (A[:-1] & 1)]),
    ),
    "heads and tails between neighbours": (
        CUT + FOUR + ODD + "B(s).FlagHeadsAndTails(h, 0, u, 1, v, cuda::std::not_equal_to<>{});"
        "for (int i = 0; i < 4; i++) v[i] = h[i] + 2 * u[i];" + OUT,
        np.diff(A & 1, prepend=0).astype(bool) + 2 * np.diff(A & 1, append=1).astype(bool),
    ),
}


def together(bodies: Sequence[str]) -> str:
    """One source with a kernel `n0::f`, `n1::f` ... for each body."""
    return HEAD + "".join(
        f"namespace n{i} {{\n{kernel(body).removeprefix(HEAD)}}}\n" for i, body in enumerate(bodies)
    )


@cache
def collectives() -> Program:
    return Program(together([body for body, _ in CASES.values()]), [f"n{i}::f" for i in range(len(CASES))])


@pytest.mark.parametrize("name", CASES)
def test_collectives(name: str) -> None:
    entry = f"n{list(CASES).index(name)}::f"
    found = collectives().run(np.zeros_like(A), A, block=N, kernel=entry)[0]
    assert found.tolist() == np.asarray(CASES[name][1]).tolist()


ALGORITHMS = ("DIRECT", "VECTORIZE", "TRANSPOSE", "WARP_TRANSPOSE", "WARP_TRANSPOSE_TIMESLICED", "STRIPED")


def copying(algorithm: str, valid: str = "", otherwise: str = "") -> str:
    return f"""typedef cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_{algorithm}> L;
    typedef cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_{algorithm}> S;
    __shared__ union {{ typename L::TempStorage l; typename S::TempStorage s; }} both;
    int v[4] = {{}};
    L(both.l).Load(a, v{valid}{otherwise});
    __syncthreads();
    for (int i = 0; i < 4; i++) v[i] += 1000 * t;
    S(both.s).Store(x, v{valid});"""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("valid", ["", ", 333"])
def test_loads_and_stores(algorithm: str, valid: str) -> None:
    thread = np.arange(4 * N) % N if algorithm == "STRIPED" else np.arange(4 * N) // 4
    wanted = A + 1000 * thread
    found = left(copying(algorithm, valid, ", -1" if valid else ""), A)
    assert found.tolist() == (wanted.tolist() if not valid else [*wanted[:333], *[0] * (4 * N - 333)])


def test_what_a_load_leaves_out_gets_the_given_value() -> None:
    body = block("BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>")
    body += "int v[4]; B(s).Load(a, v, 333, -7); cub::StoreDirectBlocked(t, x, v);"
    assert left(body, A).tolist() == [*A[:333], *[-7] * (4 * N - 333)]


def test_a_misaligned_vector_ends_the_run() -> None:
    with pytest.raises(KernelFault, match="misaligned"):
        left(copying("VECTORIZE").replace("Load(a,", "Load(a + 1,"), A)


SORT = """typedef cub::BlockRadixSort<{kind}, 128, 4{values}> B; __shared__ typename B::TempStorage s;
{kind} v[4]; int w[4]; (void)w;
for (int i = 0; i < 4; i++) {{ v[i] = a[4 * t + i]; w[i] = 4 * t + i; }}
B(s).{call}; """
KEYS = {
    "int": RNG.integers(-(2**31), 2**31, 4 * N).astype(np.int32),
    "unsigned": RNG.integers(0, 2**32, 4 * N).astype(np.uint32),
    "short": RNG.integers(-(2**15), 2**15, 4 * N).astype(np.int16),
    "unsigned char": RNG.integers(0, 2**8, 4 * N).astype(np.uint8),
    "long long": RNG.integers(-(2**62), 2**62, 4 * N),
    "float": RNG.normal(size=4 * N).astype(np.float32),
    "double": RNG.normal(size=4 * N),
    "__half": RNG.normal(size=4 * N).astype(np.float16),
    "__nv_bfloat16": RNG.normal(size=4 * N).astype(ml_dtypes.bfloat16),
}


def sorting(kind: str, call: str, values: str = "") -> str:
    body = SORT.format(kind=kind, call=call, values=values)
    return kernel(body + OUT, kind, "#include <cuda_fp16.h>\n#include <cuda_bf16.h>")


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_are_sorted(kind: str, descending: bool) -> None:
    a = KEYS[kind]
    raw = a.view(np.uint16) if a.dtype.kind == "V" or a.dtype == ml_dtypes.bfloat16 else a
    code = sorting(kind, "SortDescending(v)" if descending else "Sort(v)")
    found = run(code, np.zeros_like(raw), raw, block=N)[0].view(a.dtype).astype(np.float64)
    wanted = np.sort(a.astype(np.float64))
    assert np.array_equal(found, wanted[::-1] if descending else wanted)


@pytest.mark.parametrize("call", ["Sort(v, w)", "SortDescending(v, w, 3, 9)", "SortBlockedToStriped(v, w)"])
def test_values_follow_their_keys_and_equal_keys_keep_their_order(call: str) -> None:
    a = RNG.integers(0, 2**12, 4 * N).astype(np.int32)
    body = (
        SORT.format(kind="int", call=call, values=", int")
        + "for (int i = 0; i < 4; i++) x[4 * t + i] = w[i];"
    )
    bits = a >> 3 & 63 if "3, 9" in call else a
    order = np.argsort(-bits if "Descending" in call else bits, kind="stable")
    found = left(body, a)
    assert found.tolist() == (order.reshape(4, N).T.ravel() if "Striped" in call else order).tolist()


@pytest.mark.parametrize("kind", ["float", "int", "unsigned"])
def test_twiddled_bits_order_like_keys_and_come_back(kind: str) -> None:
    a = KEYS[kind]
    body = f"""typedef cub::Traits<{kind}> K;
    union {{ {kind} key; K::UnsignedBits bits; }} u;
    u.key = a[t]; u.bits = K::TwiddleIn(u.bits); x[t] = u.key;
    u.bits = K::TwiddleOut(u.bits); x[128 + t] = u.key;"""
    found = left(body, a, kind)
    order = np.argsort(a[:N], kind="stable")
    assert np.array_equal(np.sort(found[:N].view(np.uint32)), found[:N].view(np.uint32)[order])
    assert np.array_equal(found[N : 2 * N], a[:N])


def test_zeros_of_either_sign_are_equal_keys() -> None:
    a = np.where(np.arange(4 * N) % 2, -0.0, 0.0).astype(np.float32)
    body = SORT.format(kind="float", call="Sort(v, w)", values=", int")
    found = left(body + "for (int i = 0; i < 4; i++) x[4 * t + i] = w[i];", a, "float")
    assert found.tolist() == list(range(4 * N))


def test_an_operator_that_does_not_commute_is_applied_in_order() -> None:
    body = """M m{a[t] | 1, a[t]}, r, all;
    typedef cub::BlockScan<M, 128> S; __shared__ typename S::TempStorage s;
    typedef cub::BlockReduce<M, 128> R; __shared__ typename R::TempStorage q;
    typedef cub::WarpScan<M> W; __shared__ typename W::TempStorage w[4];
    S(s).InclusiveScan(m, r, Compose(), all);
    M inside; W(w[t / 32]).InclusiveScan(m, inside, Compose());
    const M sum = R(q).Reduce(m, Compose());
    x[t] = r.b; x[128 + t] = inside.b; x[256 + t] = all.b;
    if (t == 0) x[384] = sum.b;"""

    def prefixes(values: np.ndarray) -> list[int]:
        out, b = [], np.int32(0)
        with np.errstate(over="ignore"):
            for v in values:
                b = b * (v | np.int32(1)) + v
                out.append(int(b))
        return out

    found = left(body, A, head=AFFINE)
    assert found[:N].tolist() == prefixes(V)
    assert found[N : 2 * N].tolist() == [b for warp in WARP for b in prefixes(warp)]
    assert set(found[2 * N : 3 * N].tolist()) == {prefixes(V)[-1]} == {int(found[3 * N])}


@pytest.mark.parametrize("block", [1, 31, 33, 100, 1000, 1024])
def test_a_block_smaller_than_declared_counts_its_threads(block: int) -> None:
    """As RMS norms do: declared for 1024 threads, valid for those that run."""
    a = RNG.normal(size=1024).astype(np.float32)
    body = """typedef cub::BlockReduce<float, 1024> B; __shared__ typename B::TempStorage s;
    const float r = B(s).Reduce(a[t], cuda::std::plus<>{}, blockDim.x); if (t == 0) x[0] = r;"""
    assert left(body, a, "float", block)[0] == pytest.approx(a[:block].astype(np.float64).sum(), abs=1e-4)


@pytest.mark.parametrize("threads", [1, 7, 48, 100])
def test_blocks_that_are_not_whole_warps(threads: int) -> None:
    body = f"""typedef cub::BlockScan<int, {threads}> S; __shared__ typename S::TempStorage s;
    typedef cub::BlockReduce<int, {threads}> R; __shared__ typename R::TempStorage q;
    int r, all; S(s).ExclusiveSum(a[t], r, all); x[t] = r;
    const int sum = R(q).Sum(a[t]); if (t == 0) x[256] = sum + 1000 * all;"""
    found = left(body, A, block=threads)
    assert found[:threads].tolist() == exclusive(A[:threads]).tolist()
    assert found[256] == 1001 * A[:threads].sum()


def test_blocks_of_two_dimensions_are_ranked_row_by_row() -> None:
    body = block("BlockScan<int, 16, cub::BLOCK_SCAN_RAKING, 8>")
    body += "const int r = threadIdx.y * 16 + threadIdx.x; B(s).ExclusiveSum(a[r], x[r]);"
    assert left(body, A, block=(16, 8, 1)).tolist() == shown(exclusive(V)).tolist()


REPEATED = """int r, all = 0;
for (int i = 0; i < 4; i++) { r = B(s).Sum(a[128 * i + t]); all = 3 * all + r; BARRIER }
r = all;"""
TILES = "for (int i = 0; i < 4; i++) { B(s).InclusiveSum(a[128 * i + t], x[128 * i + t]); BARRIER }"
BROADCAST = "__shared__ int all; const int r = B(s).Sum(a[t]); if (t == 0) all = r; BARRIER x[t] = all;"
TWICE: dict[str, tuple[str, object]] = {
    "reduce": (REDUCE + REPEATED + FIRST, at_first(A.reshape(4, N).sum(1) @ [27, 9, 3, 1])),
    "scan": (SCAN + TILES, np.cumsum(A.reshape(4, N), 1).ravel()),
    "exchange": (
        EXCHANGE + FOUR + "B(s).StripedToBlocked(v); BARRIER B(s).StripedToBlocked(v);" + OUT,
        BLOCKED.T.reshape(N, 4).T.ravel(),
    ),
    "sort": (
        SORT.format(kind="int", call="Sort(v)", values="") + "BARRIER B(s).SortDescending(v);" + OUT,
        np.sort(A)[::-1],
    ),
    "one result for all": (REDUCE + BROADCAST, shown(np.full(N, V.sum()))),
}


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("barrier", ["__syncthreads();", ""])
def test_storage_that_is_used_again_without_a_barrier_shows(name: str, barrier: str) -> None:
    body, wanted = TWICE[name]
    found = left(body.replace("BARRIER", barrier), A)
    assert np.array_equal(found, wanted) is bool(barrier)


def test_only_the_first_thread_has_the_result() -> None:
    assert V.sum() not in left(REDUCE + "x[t] = B(s).Sum(a[t]);", A)[1:N]


@pytest.mark.parametrize(
    ("body", "block", "why"),
    [
        (REDUCE + "x[t] = B(s).Sum(a[t]);", 256, "a thread beyond"),
        (REDUCE + "if (t < 64) x[t] = B(s).Sum(a[t]);\nelse __syncthreads();", 128, "others of its block"),
        ("typedef cub::WarpReduce<int> W; __shared__ typename W::TempStorage s;"
         "if (t < 20) x[t] = W(s).Sum(a[t]); else __syncthreads();", 32, "deadlock"),
    ],
)  # fmt: skip
def test_misuse_ends_the_run(body: str, block: int, why: str) -> None:
    with pytest.raises(KernelFault, match=why):
        left(body, A, block=block)


def test_nvrtc_compiles_the_same_programs() -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    from kcurate.backends.cuda.compiler import CudaCompiler

    bodies = [body for body, _ in CASES.values()] + [copying(one) for one in ALGORITHMS]
    calls = ("Sort(v, w)", "SortDescending(v, w, 3, 9)")
    bodies += [SORT.format(kind="int", call=call, values=", int") for call in calls]
    entries = [EntryPoint(f"n{i}::f") for i in range(len(bodies))]
    made = CudaCompiler("sm_90").compile(together(bodies), entries)
    assert isinstance(made, Compiled), made.log
