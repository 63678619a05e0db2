"""Cutting kernels in Triton out of modules: where they stand, what they call, their configurations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcurate.triton_source import refusals
from kcurate.triton_source.extracting import Cut, cuts
from kcurate.triton_source.module_names import Tree

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
TUNED = (
    "@triton.autotune(configs={configs}, key=['n'])\n@triton.jit\ndef tuned(p, B: tl.constexpr):\n    pass\n"
)
INDUCTOR = (
    HEAD
    + """
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

@triton_heuristics.reduction(size_hints=[4, 8], filename=__file__, triton_meta={'device': 0})
@triton.jit
def fused(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.device_assert(i < B, "outside")
    tl.store(out + i, triton_helpers.maximum(a, b))
    tl.store(out + B + i, triton_helpers.minimum(a, b))
    rows = tl.reshape(a, [2, B // 2])
    places = tl.broadcast_to(tl.arange(0, B // 2)[None, :], [2, B // 2])
    best, where = triton_helpers.max_with_index(rows, places, 1)
    tl.store(out + 2 * B + tl.arange(0, 2), triton_helpers.max2(rows, 1))
    tl.store(out + 2 * B + 2 + tl.arange(0, 2), where.to(tl.float32))
    ones = tl.full(rows.shape, 1.0, tl.float32)
    mean, m2, weight = triton_helpers.welford(rows, tl.zeros_like(rows), ones, 1)
    tl.store(out + 2 * B + 4 + tl.arange(0, 2), mean)
    tl.store(out + 2 * B + 6 + tl.arange(0, 2), m2 / weight)
    whole = i - 4
    tl.store(out + 2 * B + 8 + i, triton_helpers.div_floor_integer(whole, 3).to(tl.float32))
    tl.store(out + 3 * B + 8 + i, triton_helpers.remainder_integer(whole, 3).to(tl.float32))
    tl.store(out + 4 * B + 8 + i, libdevice.tanh(b) * tl_math.exp(libdevice.fast_logf(tl_math.abs(b) + 1)))
"""
)
RUN = """
import importlib.util, sys, numpy as np, torch
spec = importlib.util.spec_from_file_location("module", sys.argv[1])
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
x = torch.tensor([3., 9., 9., 1., -2., float("nan"), 0., 5.])
y = torch.tensor([4., 8., float("nan"), 1., 0., 1e-4, -7., -0.4])
out = torch.zeros(48); module.fused[(1,)](x, y, out, 8)
a, b, got = x.numpy(), y.numpy(), out.numpy()
rows = a.reshape(2, 4)
whole = np.arange(8) - 4
want = [np.maximum(a, b), np.minimum(a, b), rows.max(1), rows.argmax(1), rows.mean(1), rows.var(1),
        whole // 3, whole % 3, np.tanh(b) * (np.abs(b) + 1)]
np.testing.assert_allclose(got, np.concatenate(want), rtol=1e-5)
"""


def cut(text: str, **others: str) -> dict[str, Cut]:
    files = {
        "a.py": HEAD + text if HEAD not in text else text,
        **{f"{name}.py": other for name, other in others.items()},
    }
    file = Tree(list(files), files.get).file("a.py")
    assert file is not None
    return {each.name: each for each in cuts(file)}


def test_helpers_of_inductor_compute_what_numpy_does(tmp_path: Path) -> None:
    fused = cut(INDUCTOR)["fused"]
    assert fused.left is None and fused.wrapped is None and not list(refusals(fused.code))
    assert "device_assert" not in fused.code and "torch" not in fused.code
    module = tmp_path / "module.py"
    module.write_text(fused.code)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(module)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_a_helper_without_an_equal_is_a_reason() -> None:
    left = cut(INDUCTOR.replace("triton_helpers.max2(rows, 1)", "triton_helpers.bucketize(rows, 1)"))[
        "fused"
    ].left
    assert left is not None and "triton_helpers.bucketize" in left.what


NESTED = """
SCALE: tl.constexpr = 2
N = 3
def make(dtype, N):
    SCALE: tl.constexpr = tl.constexpr(5)
    @triton.jit
    def scaled(p):
        tl.store(p, SCALE)
    @triton.jit
    def unknown(p):
        tl.store(p, N)
    return scaled, unknown
class Holder:
    SCALE = 7
    @staticmethod
    @triton.jit
    def method(p):
        tl.store(p, SCALE)
if torch.version.hip is None:
    @triton.jit
    def branch(p):
        tl.store(p, SCALE)
else:
    pass
try:
    pass
finally:
    LAST: tl.constexpr = 9
@triton.jit
def last(p):
    tl.store(p, LAST)
"""


def test_kernels_in_functions_classes_and_branches_see_the_right_names() -> None:
    found = cut(NESTED)
    constants = {"scaled": "5", "method": "2", "branch": "2", "last": "9"}
    for name, value in constants.items():
        assert found[name].left is None
        assert (
            f"SCALE: tl.constexpr = {value}" in found[name].code.replace("tl.constexpr(5)", "5")
            or name == "last"
        )
    left = found["unknown"].left
    assert left is not None and left.what == "N"  # a parameter, not the module's constant
    assert found["method"].wrapped is None


LISTED = """
def listed():
    every = []
    for b in [16, 32]:
        for w in (2, 4):
            if b * w == 32:
                continue
            every.append(triton.Config({'B': b}, num_warps=w))
    return every
"""
MADE = """
def made(low, up=1):
    every = [triton.Config({'B': low * i}) for i in range(1, up + 1)]
    if low > 3:
        return every
    return []
"""
CHECKED = "from elsewhere import check_shared_mem, is_amd\nBIG = [64]\nSMALL = [32]\n"
PRODUCT = "for b, s in itertools.product([1, 2], [16])"


@pytest.mark.parametrize(
    ("configs", "before", "blocks"),
    [
        ("listed()", LISTED, [16, 32, 32]),
        ("made(4, up=2)", MADE, [4, 8]),
        ("[triton.Config({'B': b}) for b in (BIG if check_shared_mem() else SMALL)]", CHECKED, [64]),
        ("[triton.Config({'B': b}) for b in (BIG if is_amd() else SMALL)]", CHECKED, [32]),
        ("[triton.Config({'B': b}) for b in (BIG if not is_amd() else SMALL)]", CHECKED, [64]),
        (f"[triton.Config({{'B': b * s}}) {PRODUCT}]", "import itertools\n", [16, 32]),
    ],
)
def test_configurations_that_the_text_determines(configs: str, before: str, blocks: list[int]) -> None:
    tuned = cut(before + TUNED.format(configs=configs))["tuned"]
    assert tuned.left is None
    assert [config.constants["B"] for config in tuned.configurations] == blocks


@pytest.mark.parametrize(
    "before",
    [
        "def listed():\n    return listed()\n",
        "def listed():\n    while True:\n        pass\n",
        "def listed():\n    n = [1]\n    for i in range(60):\n        n.extend(n)\n    return n\n",
        "def listed():\n    return open('x').read()\n",
        "def listed():\n    return [triton.Config({'B': 9 ** 64 ** 64 ** 64})]\n",
    ],
)
def test_configurations_that_it_does_not_are_a_reason(before: str) -> None:
    left = cut(before + TUNED.format(configs="listed()"))["tuned"].left
    assert left is not None and str(left.reason) == "configurations_not_literal"
