"""Inline PTX: what Hopper code needs passes, and nothing hostile gets in with it."""

from __future__ import annotations

import pytest

from kcurate.judge.checks import static
from kcurate.records import Side

WAIT = r"""asm volatile(
    "{\n"
    ".reg .pred       P1;\n"
    "LAB_WAIT: \n"
    "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1; \n"
    "@P1 bra DONE; \n"
    "bra     LAB_WAIT; \n"
    "DONE: \n"
    "}" : : "r"(bar), "r"(phase));"""
WGMMA = r"""asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 1;\n}\n"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(scale));"""


def findings(body: str, head: str = "") -> list[str]:
    code = f'{head}\nextern "C" __global__ void k(float *x, int n)\n{{\n{body}\n}}\n'
    return [str(found) for found in static.check_source(Side(code, ()))]


@pytest.mark.parametrize(
    "body",
    [
        WAIT,
        WGMMA,
        'asm volatile("" ::: "memory");',
        'asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");'.replace("\n", "\\n"),
        'asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(0) : "memory");',
        'asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(232));',
        'asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(1));',
        'asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r) : "r"(a));',
        'asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(r));',
        'asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast'
        '::cluster [%0], [%1, {%3, %4}], [%2], %5;" :: "r"(d), "l"(m), "r"(b), "r"(i), "r"(j), "h"(mask));',
        'asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");',
        'asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");',
        'asm("{ .reg .b32 r<4>; mov.b32 {%0, %1}, %2; }" : "=h"(lo), "=h"(hi) : "r"(both));',
        'asm("// two at once\\n\\t" "add.f32 %0, %1, %2; /* sum */" : "=f"(s) : "f"(a), "f"(b));',
        'asm("{ L: @p bra L; { .reg .u32 t; @!p bra.uni L; } }");',
        'asm("mov.u32 %0, %%laneid;" : "=r"(lane));',
    ],
)
def test_modern_instructions_pass(body: str) -> None:
    assert findings(body) == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        # Text that is finished elsewhere.
        ('asm("bra"); asm("L; L:");', "no semicolon"),
        ('asm("{"); asm("}");', "a brace that is not closed"),
        ('asm("}"); asm("{");', "a closing brace"),
        ('asm("/*"); asm("trap; */");', "no semicolon"),
        ('asm("nano" "sle" "ep.u32 100;");', "nanosleep"),
        ('asm("add.u32 %0, %0, 1; tr" "ap;" : "+r"(r));', "trap"),
        # Jumps out of the statement.
        ('asm("L: "); asm("bra L;");', "not a label"),
        ('asm("{ { L: } bra L; }");', "not a label"),
        ('asm("{ L: } { bra L; }");', "not a label"),
        ('asm("bra $L__BB0_2;");', "not a label"),
        ('asm("bra %0;" :: "r"(r));', "not a label"),
        ('asm("L: brx.idx r, L;");', "brx"),
        ('asm("call (r), f, (r);");', "an operand"),
        ('asm("call f;");', "call"),
        ('asm("@p ret;");', "ret"),
        ('asm("exit: bra exit; exit;");', "exit"),
        ('asm("trap: trap;");', "trap"),
        ('asm("@%p trap;");', "trap"),
        ('asm("trap.x;");', "trap"),
        ('asm("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r) : "r"(t));', "tensor memory"),
        ('asm("trap /**/ ;");', "trap"),
        # Clocks, sleeps, other registers.
        ('asm("mov.u32 %0, %%clock;" : "=r"(r));', "clock"),
        ('asm("{ .reg .u32 %%clock; mov.u32 %0, %%clock; }" : "=r"(r));', "clock"),
        ('asm("mov.u64 %0, %" "globaltimer;" : "=l"(t));', "globaltimer"),
        (
            'asm("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%0], 0, 9999999; }" :: "r"(b));',
            "wait",
        ),
        ('asm("mbarrier.try_wait.parity.shared.b64 _, [%0], 0, 9999999;" :: "r"(b));', "wait"),
        # Directives, text from elsewhere, expressions.
        ('asm(".pragma \\"nounroll\\";");', "directive"),
        ('asm(".global .u32 kept;");', "directive"),
        ('asm(".shared .b8 s[64];");', "directive"),
        ('asm(".reg .u32 a; .func f;");', "directive"),
        ('asm(".reg .u32 a = trap;");', "declaration"),
        ('asm(".reg .u32 r<99999>;");', "registers"),
        ('asm("%0.u32 100;" :: "C"(name));', "not an instruction"),
        ('asm("mov.u32 %0, 1;" : "=r"(r) : "C"(name));', "the constraint"),
        ('asm("mov.u32 %[r], 1;" : [r] "=r"(r));', "operand"),
        ('asm("mov.u32 %0, (1 + 2);" : "=r"(r));', "an operand"),
        ('asm("#include \\"/etc/passwd\\"");', "no semicolon"),
        ('asm("mov.u32 %0, 1 trap;" : "=r"(r));', "an operand"),
        ('asm("t\\162ap;");', "escape"),
        ('asm(u8"trap;");', "plain string"),
        ("asm(TEXT);", "plain string"),
        ('asm("mov.u32 %0, " SIZE ";" : "=r"(r));', "plain string"),
        ('asm goto("bra %l0;" :::: out); out:', "plain string"),
    ],
)
def test_hostile_assembly_is_refused(body: str, why: str) -> None:
    assert any(why in found for found in findings(body)), findings(body)


def test_branches_into_another_statement_name_nothing_here() -> None:
    inside = 'asm volatile("{ bra DONE; DONE: }");'
    assert findings(inside) == []
    assert findings(f'{inside} asm volatile("bra DONE;");')


@pytest.mark.parametrize(
    "attributes",
    [
        "__cluster_dims__(2, 1, 1)",
        "__launch_bounds__(128, 1) __cluster_dims__(2)",
        "__maxnreg__(64)",
        "__block_size__((128, 1, 1), (2, 1, 1))",
    ],
)
def test_function_attributes_are_no_variables(attributes: str) -> None:
    for order in (f"__global__ void {attributes}", f"__global__ {attributes} void"):
        code = f'extern "C" {order} k(float *x, int n)\n{{\nx[0] = n;\n}}\n'
        assert static.check_source(Side(code, ())) == ()


@pytest.mark.parametrize(
    "code",
    [
        "__device__ __maxnreg__(64) int kept;",
        "int __cluster_dims__;",
        "__device__ int __cluster_dims__;",
        "#define __maxnreg__(n) int kept\n__device__ __maxnreg__(1);",
        "__global__ void __maxnreg__(({ static int kept; ++kept; })) k() {}",
        "#define __launch_bounds__(n) __device__ int kept_##n; __global__ void",
    ],
)
def test_attributes_hide_no_state(code: str) -> None:
    assert static.check_source(Side(code, ()))


@pytest.mark.parametrize(
    ("head", "refused"),
    [
        ("", False),
        ("#include <cassert>", False),
        ("#include <assert.h>", False),
        ("#include <cuda/std/cassert>", False),
        ("#define assert(x) x", True),
        ("#undef assert", True),
        ("#undef NDEBUG\n#include <cassert>", True),
        ("#define NDEBUG 0", True),
    ],
)
def test_asserts_pass_and_keep_their_meaning(head: str, refused: bool) -> None:
    assert bool(findings("assert(n > 0); x[0] = n;", head)) is refused


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("cub/block/block_reduce.cuh", False),
        ("cub/warp/warp_scan.cuh", False),
        ("cuda/ptx", False),
        ("cuda/barrier", False),
        ("cuda/pipeline", False),
        ("cub/cub.cuh", True),
        ("cub/device/device_reduce.cuh", True),
        ("cub/block/../device/device_reduce.cuh", True),
        ("cub/../../../etc/passwd", True),
        ("cub/block//block_reduce.cuh", True),
        ("cuda/ptx/../../x", True),
    ],
)
def test_headers_of_blocks_and_warps_pass(name: str, refused: bool) -> None:
    found = findings("", f"#include <{name}>")
    assert bool(found) is refused
    assert not name.startswith("cub/") or not refused or "cub/block/block_reduce.cuh" in found[0]


@pytest.mark.parametrize(
    "body",
    [
        "x[0] = cuda::ptx::get_sreg_clock64();",
        "x[0] = cuda::ptx::get_sreg_globaltimer_lo();",
        "cuda::ptx::exit();",
        "cuda::ptx::trap();",
        "while (!bar.try_wait_for(token, cuda::std::chrono::milliseconds(n))) {}",
        "x[0] = cuda::std::chrono::steady_clock::now().time_since_epoch().count();",
        "cuda::std::__cccl_thread_sleep_for(t);",
        "cuda::std::__cccl_thread_poll_with_backoff([] { return false; }, 1000000ns);",
        "bar.__try_wait(token, 1000000ns);",
        "using namespace cuda::std::chrono_literals;",
    ],
)
def test_library_clocks_and_sleeps_are_refused(body: str) -> None:
    assert findings(body, "#include <cuda/ptx>\n#include <cuda/barrier>")
