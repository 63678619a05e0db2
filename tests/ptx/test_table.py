"""The table of PTX: its forms are real PTX, run on the emulator, and are what the static check allows."""

from __future__ import annotations

import contextlib

import pytest
from emulation import compile_side
from hypothesis import given
from hypothesis import strategies as st

from kcurate.backends.emulator import assembly
from kcurate.judge.checks import static
from kcurate.ptx import rows, table
from kcurate.ptx.parse import Instruction, PtxError, parse
from kcurate.records import Side
from tests.ptx.examples import INSTRUCTIONS, PROLOG

KERNEL = """extern "C" __global__ void __launch_bounds__(128) f(float *x, int n)
{{
__shared__ float memory[1024];
unsigned s = (unsigned)__cvta_generic_to_shared(memory);
{}
}}
"""


def statement(instruction: str) -> str:
    used = " @p mov.b32 r0, 1;" if "try_wait" in instruction else ""
    return f'asm volatile("{{ {PROLOG} {instruction}{used} }}" :: "r"(s), "l"(x) : "memory");'


def test_every_form_has_an_example_and_every_example_a_form() -> None:
    found = [table.find(one) for text in INSTRUCTIONS for one in parse(text) if isinstance(one, Instruction)]
    assert len(found) == len(INSTRUCTIONS) and all(found)
    known = {form.text for forms in table.forms().values() for form in forms}
    assert known - {one.form.text for one in found if one} == {"bra [uni]"}


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_what_is_emulated_is_allowed(instruction: str) -> None:
    assert static.check_source(Side(KERNEL.format(statement(instruction)), ())) == ()


def test_the_emulator_runs_every_form() -> None:
    code = KERNEL.format("\n".join(f"if (n == {i}) {statement(one)}" for i, one in enumerate(INSTRUCTIONS)))
    assert "unsupported" not in assembly.translate(code)
    assert code.count("\n") == assembly.translate(code).count("\n")
    compile_side(code)


@pytest.mark.parametrize("at", range(0, len(INSTRUCTIONS), 30))
def test_examples_are_ptx(at: int) -> None:
    nvrtc = pytest.importorskip("kcurate.backends.cuda.nvrtc")
    code = KERNEL.format(
        "\n".join(f"if (n == {i}) {statement(one)}" for i, one in enumerate(INSTRUCTIONS[at : at + 30]))
    )
    made = nvrtc.compile_cubin(code)
    assert made.cubin, made.log


def test_an_opcode_is_allowed_or_refused_for_a_reason() -> None:
    assert not table.allowed() & set(rows.REFUSED)
    assert not set(rows.NOT_EMULATED.split()) & set(table.forms())
    assert set(table.forms()) < table.allowed()


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 $4, l0, l1, r1, 0, p, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc $4, l0, l1, p;",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 $4, l0, l1, p, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 $4, l0, l1, p;",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {l0}, {l1}, {l2}, {l3};",
        "add.sat.s32 r0, r1, r2;",
        "mad.lo.cc.u32 r0, r1, r2, r3;",
        "ld.global.b128 r0, [l0];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [r0], [l0, {r1, r2, r3}], [r3], {h0};",
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [l0, {r1, r2, r3}], [r0];",
        "mov.u32 r0, %smid;",
        "mov.u64 l0, some_symbol;",
        "fence.proxy.tensormap::generic.acquire.gpu [l0];",
        "add.u32 r0, r1;",
        "add.u32 r0, r1, r2, r3;",
    ],
)
def test_a_form_without_a_row_is_unsupported(text: str) -> None:
    made = assembly.translate(f'asm volatile("{{ {PROLOG} {text} }}" :: "r"(s), "l"(x));')
    assert made.count("::kcu_ptx::unsupported(") == 1
    assert text.split()[0].rstrip(";") in made


@given(st.text(alphabet='asm("%0;{}[]:,.@!prL \\n\\t', max_size=60))
def test_any_text_is_split_or_refused(text: str) -> None:
    with contextlib.suppress(PtxError):
        parse(text)
    assembly.translate(f'asm volatile("{text}");')
    assembly.translate(text)
