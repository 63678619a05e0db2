"""Kernels in Triton of Python trees: what is cut out, how it is frozen, what is lost and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import Kernel, Summary
from kcurate.triton_source import refusals

HELPERS = """
import triton
import triton.language as tl
ONE: tl.constexpr = tl.constexpr(1)

@triton.jit
def twice(x):
    return x + x * ONE
"""
KERNELS = '''
import os, torch
import triton
from triton import language as tl
from . import helpers as hp
from other import launcher
try:
    from triton.language.extra.libdevice import rsqrt, tanh
except ImportError:
    from triton.language.math import rsqrt

open("ran", "w").write("this file was run")
SIZES = [32, 64]

@launcher()
@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in SIZES for w in (2, 4) if b >= 32], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit(do_not_specialize=["n"])
def scale(x_ptr, y_ptr, n: int, eps, BLOCK: "tl.constexpr", EVEN: tl.constexpr) -> None:
    """Text."""
    at: tl.tensor = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(BLOCK > 1, f"{BLOCK}")
    where = x_ptr + at
    x = tl.load(where, mask=at < n)
    tl.store(y_ptr + at, tanh(hp.twice(x)) * rsqrt(eps), mask=at < n)

def host(x, y):
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    scale[grid](x, y, x.numel(), 1.0, num_stages=2)
'''
LOST = """
import triton, torch
import triton.language as tl
from somewhere import configs, pointwise

def host(x):
    return x

@triton.autotune(configs=configs("a"), key=[])
@triton.jit
def tuned(x, B: tl.constexpr):
    tl.store(x, 1)

@triton.heuristics(configs("b"))
@triton.jit
def guessed(x, B: tl.constexpr):
    tl.store(x, 1)

@triton.jit
def largest(x):
    tl.store(x, torch.finfo(torch.float32).max)

@triton.jit
def calls(x):
    tl.store(x, host(1))

@triton.jit
def asm(x):
    tl.inline_asm_elementwise("exit;", "=r", [x], tl.int32, True, 1)

@pointwise(is_tensor=[True])
@triton.jit
def add(x, y):
    return x + y
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    root = tmp_path_factory.mktemp("tree") / "project"
    for name, text in (
        ("ops/__init__.py", ""),
        ("ops/helpers.py", HELPERS),
        ("ops/kernels.py", KERNELS),
        ("ops/lost.py", LOST),
        ("ops/broken.py", "import triton\n@triton.jit\ndef ("),
        ("setup.py", "print('x')"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    workspace = root.parent / "work"
    return workspace, run(ExtractConfig((root,), workspace))


def test_a_kernel_becomes_a_module_that_stands_alone(tree: tuple[Path, Summary]) -> None:
    workspace, _ = tree
    [folder] = [path.parent for path in (workspace / "kernels").rglob("kernel.json")]
    kernel, code = store.read_json(folder / "kernel.json", Kernel), store.read_kernel_code(folder)
    assert (folder / "kernel.py").read_text() == code
    assert not list(refusals(code))
    assert code == (
        "import triton\nimport triton.language as tl\n\n"
        "\n@triton.jit\ndef own_tanh(x):\n    x32 = x.to(tl.float32)\n    z = x32 * x32\n"
        "    near_zero = x32 * (1 + z * (-0.33333144 + z * "
        "(0.13325879 + z * (-0.0530455 + z * 0.0172415))))\n"
        "    return tl.where(tl.abs(x32) < 0.5, near_zero, 2 * tl.sigmoid(2 * x32) - 1)\n\n\n"
        "ONE: tl.constexpr = tl.constexpr(1)\n\n\n"
        "@triton.jit\ndef twice(x):\n    return x + x * ONE\n\n\n"
        "@triton.jit\ndef scale(x_ptr, y_ptr, n, eps, BLOCK: tl.constexpr, EVEN: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.static_assert(BLOCK > 1)\n"
        "    where = x_ptr + at\n    x = tl.load(where, mask=at < n)\n"
        "    tl.store(y_ptr + at, own_tanh(twice(x)) * tl.math.rsqrt(eps), mask=at < n)\n"
    )
    assert kernel.language == "triton" and kernel.id == "project/ops/kernels.py/scale"
    assert [one.name for one in kernel.params if one.pointer] == ["x_ptr", "y_ptr"]
    assert [one.name for one in kernel.params if one.type] == ["BLOCK", "EVEN"]
    frozen = [(dict(one.constexprs), one.num_warps) for one in kernel.configurations]
    assert frozen == [
        ({"EVEN": "n % BLOCK == 0", "BLOCK": block}, warps) for block in (32, 64) for warps in (2, 4)
    ]
    [site] = kernel.launch_sites
    assert (site.grid, site.block) == ("triton.cdiv(x.numel(), meta['BLOCK'])", "128")
    assert [one.expression for one in site.arguments] == ["x", "y", "x.numel()", "1.0"]
    assert site.keywords == {"num_stages": "2"}


def test_every_loss_has_a_reason_and_nothing_is_run(tree: tuple[Path, Summary]) -> None:
    workspace, summary = tree
    assert summary.items["kernels"] == {
        "calls_host_function": 1,
        "configurations_not_literal": 1,
        "generated_kernel": 1,
        "heuristics_not_literal": 1,
        "name_from_outside": 1,
        "not_compiled": 1,
        "not_on_the_list": 1,
    }
    assert summary.items["files"] == {
        "extracted": 1,
        "no_kernel": 1,
        "not_source": 2,
        "parser_failed": 1,
        "unread_kernel": 1,
    }
    [listed] = (workspace / "runs").glob("*/files.jsonl")
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    [lost] = [line["lost"] for line in lines if "lost" in line]
    assert {(one["name"], one["outcome"]) for one in lost} >= {("asm", "not_on_the_list")}
    assert not Path("ran").exists()
