"""Natural pairs get the admitted problem of one side, with a plan for the other, if both are equal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.draft.for_pairs.other_kernel import match
from kcurate.draft.stage import DraftConfig, draft
from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import Candidate, Launch, Param, Summary, ValueArg

NAIVE = """
__global__ void blur(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * in[i] + 0.5f * in[i > 0 ? i - 1 : 0];
}
void run(int n) {
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  blur<<<(n + 127) / 128, 128>>>(a, b, n);
}
"""
# Another name, order, type and block; one thread writes two elements.
BETTER = """
__global__ void blur_two(size_t count, const float *__restrict__ in, float *out) {
  size_t i = 2 * (blockIdx.x * (size_t)blockDim.x + threadIdx.x);
  if (i < count) out[i] = 0.5f * in[i] + 0.5f * in[i > 0 ? i - 1 : 0];
  if (i + 1 < count) out[i + 1] = 0.5f * in[i + 1] + 0.5f * in[i];
}
void run(size_t count) {
  float *a, *b;
  cudaMalloc(&a, count * sizeof(float));
  cudaMalloc(&b, count * sizeof(float));
  blur_two<<<(count + 511) / 512, 256>>>(count, a, b);
}
"""
LARGE = """
__global__ void blur_large(const float *in, float *out, int n) {
  for (int k = 0; k < 16; k++) {
    int i = blockIdx.x * 4096 + k * 256 + threadIdx.x;
    if (i < n) out[i] = 0.5f * in[i] + 0.5f * in[i > 0 ? i - 1 : 0];
  }
}
void run(int n) {
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  blur_large<<<(n + 4095) / 4096, 256>>>(a, b, n);
}
"""
MORE = BETTER.replace("float *out)", "float *out, float **more)")
TREE = {
    "both/naive/k.cu": NAIVE,
    "both/optimized/k.cu": BETTER,
    "wrong/naive/k.cu": NAIVE,
    "wrong/optimized/k.cu": BETTER.replace("out[i + 1] = 0.5f", "out[i + 1] = 0.75f"),
    # Right as long as there is one block of its own, which is larger than the other's.
    "large/naive/k.cu": NAIVE,
    "large/optimized/k.cu": LARGE,
    "clipped/naive/k.cu": NAIVE,
    "clipped/optimized/k.cu": LARGE.replace("i < n", "i < n && blockIdx.x == 0"),
    # Nothing launches the naive kernel, and the other has a parameter more.
    "more/naive/k.cu": NAIVE[: NAIVE.index("void run")],
    "more/optimized/k.cu": MORE.replace("(count, a, b)", "(count, a, b, c)"),
    # Only the fast side is launched: the slow one takes over its launch.
    "fast/naive/k.cu": NAIVE[: NAIVE.index("void run")].replace(
        "if (i < n) out[i] = ", "for (; i < n; i += blockDim.x * gridDim.x) out[i] = "
    ),
    "fast/optimized/k.cu": BETTER,
}


@dataclass(frozen=True)
class Paired:
    root: Path
    summary: Summary
    lines: tuple[str, ...]

    def pair(self, benchmark: str) -> Candidate:
        return store.read_candidate(self.root / "pairs" / "tree" / benchmark / "k")


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Paired:
    folder = tmp_path_factory.mktemp("natural")
    for name, code in TREE.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    run(ExtractConfig((folder / "tree",), folder / "work", compile=False))
    broken = folder / "work" / "pairs" / "tree" / "broken" / "pair.json"
    store.write_bytes(broken, b"{}")
    lines: list[str] = []
    summary = draft(DraftConfig(folder / "work"), note=lines.append)
    return Paired(folder / "work", summary, tuple(lines))


def test_every_natural_pair_is_counted_once(paired: Paired) -> None:
    assert paired.summary.items["pairs"] == {"parameters_differ": 1, "admitted": 3, "refused": 2}


def test_an_unreadable_pair_is_named_and_stops_nothing(paired: Paired) -> None:
    assert [line for line in paired.lines if "broken" in line]


def test_both_sides_keep_their_own_launch_on_one_problem(paired: Paired) -> None:
    pair = paired.pair("both")
    assert pair.problem is not None and set(pair.problem.sizes.headline) == {"n"}
    assert pair.origin.problem == "drafted"
    assert pair.slow.plan == (Launch("blur", ("ceil_div(n, 128)",), (128,), ("in", "out", "n")),)
    args = (ValueArg("n", "uint64"), "in", "out")
    assert pair.fast.plan == (Launch("blur_two", ("ceil_div(n, 512)",), (256,), args),)


def test_a_kernel_that_nothing_launches_is_launched_as_the_other(paired: Paired) -> None:
    pair = paired.pair("fast")
    (launch,) = pair.slow.plan
    assert isinstance(launch, Launch)
    assert (launch.launch, launch.block) == ("blur", (256,))
    assert pair.problem is not None and set(pair.problem.sizes.headline) == {"count"}


def test_a_pair_whose_sides_differ_stays_without_a_problem(paired: Paired) -> None:
    assert paired.pair("wrong").problem is None
    (line,) = [line for line in paired.lines if line.startswith("tree/wrong/k: refused: mismatch")]
    assert "blur_two<<<ceil_div(n, 512), 256>>>" in line


def params(text: str) -> tuple[Param, ...]:
    found = []
    for one in text.split(", "):
        type_, _, name = one.rpartition(" ")
        found.append(Param(name, type_, pointer="*" in type_))
    return tuple(found)


def test_test_sizes_show_two_blocks_of_either_side(paired: Paired) -> None:
    large, clipped = paired.pair("large"), paired.pair("clipped")
    assert large.problem is not None
    assert any(setting["n"] > 4096 and setting["n"] % 4096 for setting in large.problem.sizes.test)
    assert clipped.problem is None
    (line,) = (line for line in paired.lines if "clipped" in line and "refused" in line)
    assert "elements are wrong" in line


@pytest.mark.parametrize(
    ("other", "places"),
    [
        ("const float* in, float* out, int n", [0, 1, 2]),
        ("int n, float* out, const float* in", [2, 1, 0]),
        ("const float4* in, float4* out, int n", [0, 1, 2]),
        ("const float* src, float* dst, int m", [0, 1, 2]),
        ("float* dst, const float* src, int n", [1, 0, 2]),
        ("const float* src, float* dst, size_t count", [0, 1, 2]),
        ("float* out, int n", [1, 2]),
    ],
)
def test_parameters_are_matched_by_name_then_by_type(other: str, places: list[int]) -> None:
    assert match(params("const float* in, float* out, int n"), params(other)) == places


@pytest.mark.parametrize(
    "other", ["const float* in, float* out, int n, int m", "double* in2", "float x", "int* n"]
)
def test_a_parameter_without_a_counterpart_is_named(other: str) -> None:
    found = match(params("const float* in, float* out, int n"), params(other))
    assert isinstance(found, str)
    assert other.split(", ")[-1] in found
