"""Matrix products of a warp group (wgmma) on the emulator, held against NumPy.

Tiles are placed in shared memory here, by the layouts of the PTX ISA ("Asynchronous Warpgroup Level Matrix
Shared Memory Layout"), and kernels only copy them. Not covered: tiles that tensor maps bring.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from emulation import Array, Program, run
from matrix_factors import factor

from kcurate.backends.base import KernelFault
from kcurate.judge.checks.lexer import compiler_text

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
DTYPES = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
# Bytes of a swizzled row, and what a descriptor calls it.
MODES = {16: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True)
class Layout:
    """Where a tile of `rows` x `k` elements lies, of which each instruction takes `depth`; bytes.

    `across`: contiguous across k ("MN-major").
    """

    rows: int
    k: int
    depth: int
    size: int
    width: int
    across: bool = False

    def offset(self, row: Any, k: Any) -> Any:
        """Before swizzling; numbers, or arrays of them."""
        unit = 16 // self.size
        if self.across:
            many = self.width // self.size
            spread = (row // many) * self.leading if self.width > 16 else (row // 8) * self.stride
            along = (k // 8) * self.stride if self.width > 16 else (k // 8) * self.leading
            return row % many * self.size + k % 8 * self.width + spread + along
        if self.width == 16:
            eight = row % 8 * 16 + row // 8 * self.stride
            return eight + k // unit * self.leading + k % unit * self.size
        many = self.width // self.size
        return (
            row % 8 * self.width
            + row // 8 * self.stride
            + k % many * self.size
            + k // many * self.atoms_apart
        )

    @property
    def stride(self) -> int:
        if self.across:
            return 128 if self.width == 16 else 8 * self.width
        return 128 if self.width == 16 else 8 * self.width

    @property
    def leading(self) -> int:
        if self.across:
            return (self.rows // 8) * 128 if self.width == 16 else self.k * self.width
        return self.rows // 8 * 128 if self.width == 16 else 16

    @property
    def atoms_apart(self) -> int:
        """From one swizzled row's worth of k to the next."""
        return self.rows * self.width

    def step(self, number: int) -> int:
        """Where the tile of instruction `number` starts."""
        return self.offset(0, number * self.depth)

    def descriptor(self) -> int:
        return MODES[self.width] << 62 | self.stride >> 4 << 32 | self.leading >> 4 << 16

    def placed(self, matrix: Array) -> Array:
        """The bytes of shared memory, swizzled by their addresses; the rest of them are the poison of NaN."""
        long, other = (self.rows, self.k) if self.across else (self.k, self.rows)
        used = -(-long * self.size // self.width) * self.width * other
        memory = np.full(-(-used // 1024) * 1024, 0xFF, np.uint8)
        at = self.offset(*np.indices((self.rows, self.k)))
        at ^= (at >> 7 & (self.width // 16 - 1)) << 4
        memory[at[..., None] + np.arange(self.size)] = matrix[..., None].view(np.uint8)
        return memory


@dataclass(frozen=True)
class Form:
    """One wgmma, repeated for every `depth` of `k` elements."""

    n: int
    left: str
    right: str
    sums: str = "f32"
    left_width: int = 128
    right_width: int = 128
    left_across: bool = False
    right_across: bool = False
    held: bool = False
    scale_d: str = "adds"
    scales: tuple[int, int] = (1, 1)
    limit: str = ""
    steps: int = 2

    @property
    def depth(self) -> int:
        return 32 // BYTES[self.left]

    @property
    def registers(self) -> int:
        return self.n // 4 if self.sums == "f16" else self.n // 2

    def layouts(self) -> tuple[Layout, Layout]:
        k, size = self.depth * self.steps, BYTES[self.left]
        return (
            Layout(64, k, self.depth, size, self.left_width, self.left_across),
            Layout(self.n, k, self.depth, size, self.right_width, self.right_across),
        )

    def asm(self) -> str:
        """The statement; `d`, `l`, `r`, `h` and `adds` are the kernel's variables."""
        count = self.registers
        sums = ", ".join(f"%{i}" for i in range(count))
        letter = "f" if self.sums == "f32" else "r"
        outputs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
        if self.held:
            left = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
            inputs, next_ = ", ".join(f'"r"(h[{i}])' for i in range(4)), count + 4
        else:
            left, inputs, next_ = f"%{count}", '"l"(l)', count + 1
        rest = [f"%{next_}", "adds" if self.scale_d == "adds" else self.scale_d]
        if self.sums != "s32":
            rest += [str(scale) for scale in self.scales]
        if self.left in ("f16", "bf16"):
            rest += ([] if self.held else [str(int(self.left_across))]) + [str(int(self.right_across))]
        name = f"m64n{self.n}k{self.depth}{self.limit}.{self.sums}.{self.left}.{self.right}"
        product = f"wgmma.mma_async.sync.aligned.{name} {{{sums}}}, {left}, {', '.join(rest)};\\n"
        text = f"{{\\n.reg .pred adds;\\nsetp.ne.b32 adds, %{next_ + 1}, 0;\\n{product}}}\\n"
        return f'asm volatile("{text}" : {outputs} : {inputs}, "l"(r), "r"(adds));'

    def kernel(self, name: str = "f") -> str:
        left, right = self.layouts()
        kind = {"f32": "float", "f16": "unsigned", "s32": "int"}[self.sums]
        held = "for (int i = 0; i < 4; i++) h[i] = lefts[(s * 128 + t) * 4 + i];" if self.held else ""
        starts = [", ".join(f"{layout.step(i)}" for i in range(self.steps)) for layout in (left, right)]
        return f"""__global__ void {name}(unsigned *x, const unsigned *lefts, const unsigned *rights,
    const unsigned *given, int left_words, int right_words, int adds_first)
{{
    const int t = threadIdx.x;
    unsigned *words = (unsigned *)room;
    for (int i = t; i < left_words; i += 128) words[i] = lefts[i];
    for (int i = t; i < right_words; i += 128) words[left_words + i] = rights[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    {kind} d[{self.registers}];
    for (int i = 0; i < {self.registers}; i++) ((unsigned *)d)[i] = given[t * {self.registers} + i];
    const unsigned base = (unsigned)__cvta_generic_to_shared(room), other = base + 4 * left_words;
    const unsigned left_starts[] = {{{starts[0]}}}, right_starts[] = {{{starts[1]}}};
    for (int s = 0; s < {self.steps}; s++) {{
        const unsigned long long l = {left.descriptor()}ull | (base + left_starts[s] & 0x3ffff) >> 4;
        const unsigned long long r = {right.descriptor()}ull | (other + right_starts[s] & 0x3ffff) >> 4;
        unsigned h[4];
        {held}
        const int adds = s || adds_first;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        {self.asm()}
        (void)l, (void)h;
    }}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(0) : "memory");
    for (int i = 0; i < {self.registers}; i++) x[t * {self.registers} + i] = ((unsigned *)d)[i];
}}
"""


def sum_places(n: int) -> tuple[Array, Array]:
    """Row and column of each thread's sums, both (128, n / 2)."""
    t, i = np.indices((128, n // 2))
    lane = t % 32
    return 16 * (t // 32) + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2


def spread(sums: Array) -> Array:
    """(64, n) sums as every thread's registers, (128, registers) uint32."""
    return np.ascontiguousarray(sums[sum_places(sums.shape[1])]).view(np.uint32)


def gathered(registers: Array, kind: str, n: int) -> Array:
    """The (64, n) sums of every thread's registers, as float64."""
    found = np.zeros((64, n))
    found[sum_places(n)] = np.ascontiguousarray(registers).view(DTYPES[kind])
    return found


def held_left(matrix: Array, depth: int) -> Array:
    """A left tile (64, k) as registers of each step and thread, (steps, 128, 4) uint32."""
    per = 4 // matrix.itemsize
    s, t, i = np.indices((matrix.shape[1] // depth, 128, 4 * per))
    register, e, lane = i // per, i % per, t % 32
    row = 16 * (t // 32) + lane // 4 + 8 * (register % 2)
    k = s * depth + lane % 4 * per + e + register // 2 * 4 * per
    return np.ascontiguousarray(matrix[row, k]).view(np.uint32)


SIXTEEN = Form(64, "f16", "f16")
KINDS = [
    SIXTEEN,
    replace(SIXTEEN, sums="f16"),
    Form(64, "bf16", "bf16"),
    Form(64, "tf32", "tf32"),
    *(
        Form(64, left, right, sums)
        for left, right in (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2"))
        for sums in ("f32", "f16")
    ),
    *(Form(64, left, right, "s32") for left in ("s8", "u8") for right in ("s8", "u8")),
]


def named(form: Form) -> str:
    words = [f"n{form.n}", form.left, form.right, form.sums, f"w{form.left_width}-{form.right_width}"]
    words += [word for word in ("held", "left_across", "right_across") if getattr(form, word)]
    words += [form.limit[1:]] if form.limit else []
    return "-".join([*words, f"k{form.steps}", f"{form.scales[0]}{form.scales[1]}", f"d{form.scale_d}"])


FORMS = [
    # every kind of factor, by descriptor and by registers
    *KINDS,
    *(replace(form, held=True) for form in KINDS),
    # every swizzle, along and across k, with steps of k inside a swizzled row and beyond it
    *(
        replace(form, left_width=left, right_width=right, steps=steps)
        for form in (SIXTEEN, KINDS[3], KINDS[4])
        for left, right in ((16, 16), (32, 64), (64, 32), (128, 128), (128, 16))
        for steps in (1, 5)
        if steps == 1 or left == right
    ),
    *(replace(SIXTEEN, left_width=width, right_width=width, steps=8) for width in (32, 64, 128)),
    *(
        replace(form, left_width=left, right_width=right, left_across=a, right_across=b, steps=3)
        for form in (SIXTEEN, Form(128, "bf16", "bf16"))
        for left, right in ((16, 16), (32, 32), (64, 64), (128, 128), (16, 128))
        for a, b in ((True, False), (False, True), (True, True))
    ),
    *(replace(SIXTEEN, n=128, held=True, right_across=True, right_width=width) for width in MODES),
    # numbers of columns
    *(replace(SIXTEEN, n=n) for n in (8, 16, 24, 40, 88, 152, 192, 248, 256)),
    *(replace(SIXTEEN, n=n, sums="f16", held=True) for n in (8, 136, 256)),
    *(
        replace(SIXTEEN, n=n, right_across=True, right_width=width)
        for n, width in ((8, 16), (48, 32), (96, 64), (192, 128))
    ),
    *(Form(n, "s8", "u8", "s32") for n in (8, 24, 48, 256)),
    *(Form(n, "tf32", "tf32", held=held) for n in (8, 104, 256) for held in (False, True)),
    *(Form(n, "e4m3", "e5m2", held=held) for n in (8, 104, 256) for held in (False, True)),
    # scales
    *(
        replace(SIXTEEN, scales=scales, held=held)
        for scales in ((-1, 1), (1, -1), (-1, -1))
        for held in (False, True)
    ),
    *(replace(form, scale_d=scale) for form in (SIXTEEN, KINDS[-1]) for scale in ("0", "1")),
]  # fmt: skip
UNIQUE = list({named(form): form for form in FORMS}.values())
ROOM = "extern __shared__ __align__(1024) unsigned char room[];\n"
AT_ONCE = 12


@lru_cache(maxsize=2)
def program(number: int) -> Program:
    """One side with the forms from `number * AT_ONCE` on."""
    forms = UNIQUE[number * AT_ONCE : (number + 1) * AT_ONCE]
    code = ROOM + "\n".join(form.kernel(f"f{i}") for i, form in enumerate(forms))
    return Program(code, [f"f{i}" for i in range(len(forms))])


def check(form: Form, adds: int = 1) -> None:
    random = np.random.default_rng(UNIQUE.index(form))
    left, right = form.layouts()
    (a, a_values), (b, b_values) = (
        factor(kind, (layout.rows, layout.k), random)
        for kind, layout in ((form.left, left), (form.right, right))
    )
    given = (random.standard_normal((64, form.n)) * 4).astype(DTYPES[form.sums])
    lefts = held_left(a, form.depth) if form.held else left.placed(a).view(np.uint32)
    rights, start = right.placed(b).view(np.uint32), spread(given)
    left_words = 0 if form.held else lefts.size
    arguments = (lefts, rights, start, *map(np.int32, (left_words, rights.size, adds)))
    bytes_ = 4 * (left_words + rights.size)
    number, i = divmod(UNIQUE.index(form), AT_ONCE)
    launch: dict[str, Any] = {"block": 128, "shared_bytes": bytes_, "kernel": f"f{i}"}
    raw = program(number).run(np.zeros_like(start), *arguments, **launch)[0]
    found = gathered(raw, form.sums, form.n)
    kept = int(form.scale_d) if form.scale_d.isdecimal() else adds
    counted = np.s_[:, -form.depth :] if form.scale_d == "0" else np.s_[:, :]
    a_values, b_values = a_values[counted] * form.scales[0], b_values[counted] * form.scales[1]
    wanted = a_values @ b_values.T + kept * given.astype(np.float64)
    if form.sums == "s32":
        assert np.array_equal(found, wanted)
        return
    scale = np.abs(a_values) @ np.abs(b_values).T + np.abs(given.astype(np.float64))
    assert (np.abs(found - wanted) <= scale * (2**-9 if form.sums == "f16" else 2**-20)).all()


@pytest.mark.parametrize("form", UNIQUE, ids=named)
def test_products_agree_with_numpy(form: Form) -> None:
    check(form)


@pytest.mark.parametrize("form", [SIXTEEN, KINDS[1], KINDS[-1]], ids=named)
def test_a_first_product_may_replace_the_sums(form: Form) -> None:
    check(form, adds=0)


def test_the_forms_are_ptx() -> None:
    nvrtc = pytest.importorskip("kcurate.backends.cuda.nvrtc")
    chosen = UNIQUE[::6]
    made = nvrtc.compile_cubin(ROOM + "\n".join(form.kernel(f"f{i}") for i, form in enumerate(chosen)),
                               name_expressions=[f"f{i}" for i in range(len(chosen))])  # fmt: skip
    assert made.cubin, made.log


def test_an_integer_sum_saturates_where_asked_and_wraps_elsewhere() -> None:
    for limit, wanted in ((".satfinite", 2**31 - 1), ("", -(2**31) + 32 * 127 * 127 - 1 - 0)):
        form = Form(8, "s8", "s8", "s32", limit=limit, steps=1)
        left, right = form.layouts()
        lefts, rights = (
            one.placed(np.full((one.rows, 32), 127, np.int8)).view(np.uint32) for one in (left, right)
        )
        given = np.full((128, 4), 2**31 - 1, np.uint32)
        arguments = (lefts, rights, given, *map(np.int32, (lefts.size, rights.size, 1)))
        found = run(
            ROOM + form.kernel(), given, *arguments, block=128, shared_bytes=4 * (lefts.size + rights.size)
        )[0]
        assert (found.view(np.int32) == wanted).all()


# One product of the bytes 2 at `room` (left) and 8192 bytes further (right): each sum is 128. BEFORE and
# AFTER stand around it; `go` says which threads take part.
TWOS = """extern __shared__ __align__(1024) unsigned char room[];
__global__ void f(int *x, const unsigned *a)
{
    const int t = threadIdx.x;
    unsigned *words = (unsigned *)room;
    const unsigned base = (unsigned)__cvta_generic_to_shared(room);
    unsigned long long l = 1ull << 62 | 64ull << 32 | (base & 0x3ffff) >> 4;
    unsigned long long r = 1ull << 62 | 64ull << 32 | (base + 8192 & 0x3ffff) >> 4;
    int d[4] = {0, 0, 0, 0}, adds = 1;
    bool go = true;
    FILL
    BEFORE
    if (go) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0;"
            "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0, %1, %2, %3}, %4, %5, p;}"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(l), "l"(r), "r"(adds));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        AFTER
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    END
    for (int i = 0; i < 4; i++) x[4 * t + i] = d[i];
}
"""
FILL = "for (int i = t; i < 2304; i += blockDim.x) words[i] = a[i];"
SYNC = "__syncthreads();"


def twos(
    fill: str = FILL,
    before: str = SYNC,
    after: str = "",
    end: str = "",
    head: str = "",
    block: int = 128,
    **more: Any,
) -> Array:
    code = head + TWOS.replace("FILL", fill).replace("BEFORE", before).replace("AFTER", after).replace(
        "END", end
    )
    given = np.full(2304, 0x02020202, np.uint32)
    return run(code, np.zeros((block, 4), np.int32), given, block=block, shared_bytes=9216, **more)[0]


def test_a_warp_group_is_any_four_warps_in_a_row() -> None:
    assert (twos() == 128).all()
    assert (twos(block=384) == 128).all()
    found = twos(before=SYNC + "go = t >= 128 && t < 256;", block=288)
    assert (found[128:256] == 128).all() and not found[:128].any() and not found[256:].any()


def test_a_macro_may_hold_the_statement() -> None:
    macro = r"""#define MULTIPLY(d, l, r, adds) asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0;" \
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0, %1, %2, %3}, %4, %5, p;}" \
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(l), "l"(r), "r"(adds))
    """
    macro = compiler_text(macro)  # as the judge writes it: on one line
    assert (twos(head=macro, after="if (adds) MULTIPLY(d, l, r, adds); else d[0] = 0;") == 256).all()


def test_tiles_may_lie_in_static_memory_beside_dynamic() -> None:
    fill = """__shared__ __align__(1024) unsigned fixed[2304];
    r = 1ull << 62 | 64ull << 32 | ((unsigned)__cvta_generic_to_shared(fixed) + 8192 & 0x3ffff) >> 4;
    for (int i = t; i < 2304; i += blockDim.x) words[i] = a[i], fixed[i] = a[i] * 2;"""
    assert (twos(fill) == 256).all()


def test_a_descriptor_may_be_made_of_a_pointer() -> None:
    made = "l = 1ull << 62 | 64ull << 32 | ((unsigned long long)room & 0x3ffff) >> 4;"
    assert (twos(before=SYNC + made) == 128).all()


@pytest.mark.parametrize(
    ("parts", "why", "reason"),
    [
        ({"before": SYNC + "go = t < 96;"}, "96 at a wgmma for threads of their warp group", "launch_error"),
        ({"before": SYNC + "if (t >= 96) return;"}, "96 at a wgmma", "launch_error"),
        ({"before": SYNC + "go = t != 5;"}, "127 at a wgmma", "launch_error"),
        ({"block": 96}, "fewer than 128 threads", "launch_error"),
        ({"before": SYNC + "go = t >= 128;", "block": 224}, "fewer than 128 threads", "launch_error"),
        ({"before": SYNC + "if (t >= 64) r += 1;"}, "not those of all threads", "launch_error"),
        ({"before": SYNC + "adds = t != 77;"}, "not those of all threads", "launch_error"),
        ({"before": SYNC + "l += 9216 / 16;"}, "past the end of dynamic shared memory", "out_of_bounds"),
        ({"before": SYNC + "l &= ~0x3fffull;"}, "outside shared memory", "out_of_bounds"),
        ({"before": SYNC + "r |= 1ull << 49;"}, "base offset", "unsupported"),
        ({"after": "words[2048 + t % 32] = 7;"}, "by another warp without", "launch_error"),
        ({"after": "if (t % 32 == 7) words[3] = 7;"}, "by another warp without", "launch_error"),
        (
            {"after": """if (t == 0) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                :: "r"(base + 128), "l"(a));"""},
            "asynchronous copy into shared memory that a wgmma reads", "launch_error",
        ),
    ],
)  # fmt: skip
def test_misuse_ends_the_run(parts: dict[str, Any], why: str, reason: str) -> None:
    with pytest.raises(KernelFault, match=why) as caught:
        twos(**parts)
    assert caught.value.reason == reason


def test_a_copy_from_another_block_of_the_cluster_waits_too() -> None:
    after = """__shared__ unsigned long long bar;
        if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
            :: "r"((unsigned)__cvta_generic_to_shared(&bar)));
        WAIT
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        if (t == 0 && blockIdx.x == 1)
            asm volatile("{.reg .b32 to, b;"
                "mapa.shared::cluster.u32 to, %0, 0; mapa.shared::cluster.u32 b, %1, 0;"
                "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                " [to], [%0], 1024, [b];}"
                :: "r"(base), "r"((unsigned)__cvta_generic_to_shared(&bar)) : "memory");
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");"""
    launch: dict[str, Any] = {"grid": 2, "cluster": (2, 1, 1)}
    with pytest.raises(KernelFault, match="asynchronous copy into shared memory that a wgmma reads"):
        twos(after=after.replace("WAIT", ""), **launch)
    wait = """asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");"""
    assert (twos(after=after.replace("WAIT", wait), **launch) == 128).all()


def test_what_was_waited_for_may_be_written() -> None:
    wait = """asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); __syncthreads();"""
    assert (twos(after=wait + "words[t] = 7;") == 128).all()
    assert (twos(end="__syncthreads(); words[t] = 7;") == 128).all()
    # the same bytes in another block of the grid, whose last one left a batch that nobody waited for
    last = """asm volatile("wgmma.fence.sync.aligned;" ::: "memory");"""
    assert (twos(end=last, grid=3) == 128).all()
    # bytes between the rows that it reads
    assert (twos(after="words[16 + t % 8] = 7;") == 128).all()


def test_a_tile_that_another_warp_writes_needs_a_barrier() -> None:
    with pytest.raises(KernelFault, match=r"by another warp without a barrier, or before a wgmma.wait_group"):
        twos(before="")


def test_a_copy_that_nobody_waits_for_is_not_there() -> None:
    fill = """for (int i = t; i < 576; i += 128)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(base + 16 * i), "l"(a + 4 * i));
    asm volatile("cp.async.commit_group;");"""
    assert not (twos(fill) == 128).all()
    assert (twos(fill + """asm volatile("cp.async.wait_group 0;");""") == 128).all()


def test_a_warp_may_write_its_own_rows_without_the_others() -> None:
    """The left tile's rows of a warp are read when that warp has come, and not before."""
    fill = """for (int i = t; i < 256; i += 128) words[2048 + i] = a[i];
    __syncthreads();
    for (int row = 16 * (t / 32); row < 16 * (t / 32) + 16; row++) words[32 * row + t % 32] = a[t];"""
    assert (twos(fill, before="__syncwarp();") == 128).all()
