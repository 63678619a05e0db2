"""Launches that Python writes: grid, block and arguments in the words of C, and the kernels that get them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.draft.settings import DraftConfig
from kcurate.draft.stage import draft
from kcurate.forms.python_launches import definitions, launches
from tests.forms.test_forms import extracted

LOADED = 'import cupy as cp\nk = cp.RawKernel(open("k.cu").read(), "scale")\n'


@pytest.mark.parametrize(
    ("python", "grid", "block", "arguments"),
    [
        (
            "def f(n):\n    x = cp.zeros((n, 4), dtype=cp.float32)\n    k((n // 32,), (32,), (x, n))\n",
            "(n / 32)", "32", [("x", "n * 4 * 4"), ("n", None)],
        ),
        (
            "T = 16\ndef f(a, self):\n    rows, cols = a.shape\n    block = (T, T)\n"
            "    grid = (-(-cols // T), int(np.ceil(rows / T)))\n    k(grid, block, (a, np.int32(self.n)))\n",
            "dim3(ceil_div(a_shape_1, 16), ceil_div(a_shape_0, 16))",
            "dim3(16, 16)",
            [("a", None), ("n", None)],
        ),
        (
            "def f(n):\n    y = np.random.rand(n).astype(np.float32)\n    out = cp.empty_like(y)\n"
            "    k(drv.In(y), drv.Out(out), block=(64, 1, 1), grid=((len(y) + 63) // 64, 1), shared=256)\n",
            "dim3((((n + 63)) / 64), 1)", "dim3(64, 1, 1)", [("y", "n * 4"), ("out", "n * 4")],
        ),
    ],
)  # fmt: skip
def test_a_launch_is_read_with_the_values_of_its_names(
    python: str, grid: str, block: str, arguments: list[tuple[str, str | None]]
) -> None:
    [(name, site)] = launches("a.py", (LOADED + python).encode())
    assert (name, site.block) == ("scale", block)
    assert site.grid.replace("(", "").replace(")", "") == grid.replace("(", "").replace(")", "")
    assert [(each.expression, each.allocation) for each in site.arguments] == arguments
    assert (LOADED + python).splitlines()[site.line - 1].lstrip().startswith("k(")


@pytest.mark.parametrize(
    "python",
    [
        "a, b = load_kernel(('scale', 'shift'))\na((1,), (2,), (x,))\nb((1,), (2,), (x,))\n",
        "m = cp.RawModule(code=S)\nm.get_function('scale')((1,), (2,), (x,))\n"
        "self.b = m.get_function('shift')\nself.b(grid=(1,), block=(2,), args=[x])\n",
        "def g():\n    scale = cp.RawKernel(S, 'scale')\n    def h():\n        scale((1,), (2,), (x,))\n"
        "shift = SourceModule(S).get_function('shift')\nshift(x, block=(2, 1, 1))\n",
    ],
)
def test_kernels_have_the_names_that_they_are_loaded_by(python: str) -> None:
    assert sorted(name for name, _ in launches("a.py", python.encode())) == ["scale", "shift"]


@pytest.mark.parametrize(
    "python",
    [
        "RawKernel\nf(1, 2, 3)\n",
        "RawKernel\nplot((1,), (2,), title)\n",
        "RawKernel\nk(a, block=size)\n",
        "RawKernel (",
    ],
)
def test_other_calls_are_no_launches(python: str) -> None:
    assert launches("a.py", python.encode()) == ()


def test_values_that_python_puts_into_a_text() -> None:
    python = b"""load_kernel('k', {'IN_TYPE': 'float', 'TILE': 32, 'n': 4, 'X': f(), 'ACC': "double"})
    options = ('-DWIDTH=8', "-DT=unsigned int")"""
    assert dict(definitions(python)) == {
        "IN_TYPE": "float", "TILE": "32", "ACC": "double", "WIDTH": "8", "T": "unsigned int",
    }  # fmt: skip


SCALE = (
    "{0}__global__ void scale(const float *x, float *y, int n) {{\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 3 * x[i];\n}}\n"
)
CALL = (
    "def f(n):\n    x = cp.ones(n, dtype=cp.float32)\n    y = cp.empty_like(x)\n"
    "    k(((n + 127) // 128,), (128,), (x, y, n))\n"
)


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": f"import cupy as cp\nk = cp.RawKernel('''{SCALE.format('')}''', 'scale')\n{CALL}"},
        {"lib/cuda/k.cu": SCALE.format('extern "C" '), "lib/run.py": LOADED + CALL},
        {"lib/k.cu": SCALE.format(""), "lib/deep/run.py": LOADED + CALL, "lib/other.py": "x = 1\n"},
    ],
)
def test_a_kernel_that_python_launches_gets_a_problem(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    kernels, _, _ = extracted(tmp_path, files)
    [site] = kernels["scale"].launch_sites
    assert site.path.endswith(".py")
    summary = draft(DraftConfig(tmp_path / "work", jobs=1))
    assert summary.counts["kernels"] == {"admitted": 1}
