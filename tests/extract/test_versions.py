"""Versions of a kernel in trees without variant folders: which are paired, and in which order."""

from __future__ import annotations

from pathlib import Path

from kcurate.core import store
from kcurate.draft.stage import DraftConfig, draft
from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import Candidate

SCALE = """
__global__ void %s(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = %s;
}
"""
LAUNCH = """
void run_%s(int n) {
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  %s<<<(n + 127) / 128, 128>>>(a, b, n);
}
"""


def kernel(name: str, value: str = "2.0f * in[i]", launch: bool = True) -> str:
    return SCALE % (name, value) + (LAUNCH % (name, name) if launch else "")


def pairs(folder: Path, files: dict[str, str]) -> dict[str, Candidate]:
    for name, text in files.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run(ExtractConfig((folder / "tree",), folder / "work", compile=False))
    root = folder / "work" / "pairs"
    found = [store.read_candidate(one) for one in store.find_candidates(root)] if root.exists() else []
    return {one.id.rsplit("/", 1)[-1]: one for one in found}


def test_the_first_version_of_a_file_is_paired_with_each_later_one(tmp_path: Path) -> None:
    text = (
        kernel("scale_fast", "in[i] + in[i]") + kernel("scale_naive") + kernel("scale2", "ldexpf(in[i], 1)")
    )
    found = pairs(tmp_path, {"scale.cu": text + kernel("shift", "in[i] + 1.0f")})
    assert set(found) == {"scale_naive-scale_fast", "scale_naive-scale2"}
    assert "scale_naive" in found["scale_naive-scale2"].slow.code
    assert "ldexpf" in found["scale_naive-scale2"].fast.code


def test_numbered_files_of_a_folder_are_versions_and_others_are_not(tmp_path: Path) -> None:
    files = {
        "steps/10_scale.cu": kernel("scale_last", "in[i] + in[i]"),
        "steps/2_scale.cu": kernel("scale_first"),
        "apart/left.cu": kernel("half_a", "0.5f * in[i]"),
        "apart/right.cu": kernel("half_b", "in[i] / 2.0f"),
    }
    assert set(pairs(tmp_path, files)) == {"scale_first-scale_last"}


def test_versions_may_have_one_name_in_numbered_files(tmp_path: Path) -> None:
    files = {
        "scale/scale_v2_added.cu": kernel("scale", "in[i] + in[i]"),
        "scale/scale_v1_naive.cu": kernel("scale"),
    }
    assert set(pairs(tmp_path, files)) == {"scale_v1_naive-scale_v2_added"}


SUM = "__global__ void %s(const float *in, float *out) { if (threadIdx.x == %d) out[0] = in[%d]; }\n"


def test_kernels_of_two_parameters_are_versions_if_their_names_differ_in_numbers_alone(
    tmp_path: Path,
) -> None:
    files = {
        "sums/sum_v0_base.cu": SUM % ("sum0", 0, 1),
        "sums/sum_v1_warps.cu": SUM % ("sum1", 1, 1),
        "words/word.cu": SUM % ("first_one", 0, 1) + SUM % ("first_two", 1, 1),
    }
    assert set(pairs(tmp_path, files)) == {"sum0-sum1"}


def test_other_parameters_are_another_kernel(tmp_path: Path) -> None:
    other = kernel("scale_b").replace("float *out", "double *out")
    assert pairs(tmp_path, {"scale.cu": kernel("scale_a") + other}) == {}


def test_a_version_gets_the_problem_that_both_solve(tmp_path: Path) -> None:
    text = kernel("scale_v1") + kernel("scale_v2", "in[i] + in[i]") + kernel("scale_v3", "3.0f * in[i]")
    pairs(tmp_path, {"scale.cu": text})
    summary = draft(DraftConfig(tmp_path / "work"))
    assert summary.items["pairs"] == {"admitted": 1, "refused": 1}
    found = {
        one.name: store.read_candidate(one) for one in store.find_candidates(tmp_path / "work" / "pairs")
    }
    given, refused = found["scale_v1-scale_v2"], found["scale_v1-scale_v3"]
    assert given.problem is not None and given.slow.plan and given.fast.plan
    assert refused.problem is None


def test_widths_in_names_are_no_versions(tmp_path: Path) -> None:
    text = kernel("scale_f32") + kernel("scale_f32x4", "in[i] + in[i]")
    assert set(pairs(tmp_path, {"scale.cu": text})) == {"scale_f32-scale_f32x4"}


def test_triton_kernels_are_no_versions(tmp_path: Path) -> None:
    module = "import triton\nimport triton.language as tl\n"
    for number in (1, 2):
        module += f"""
@triton.jit
def scale_v{number}(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * {number}, mask=at < n)
"""
    run(ExtractConfig((_written(tmp_path / "tree" / "scale.py", module),), tmp_path / "work", compile=False))
    assert len(list((tmp_path / "work" / "kernels").rglob("kernel.py"))) == 2
    assert not (tmp_path / "work" / "pairs").exists()


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path.parent


def test_names_that_say_what_is_computed_are_no_versions(tmp_path: Path) -> None:
    files = {
        "rows.cu": kernel("filter_rows") + kernel("filter_columns", "in[i] + in[i]"),
        "steps.cu": kernel("filter_step_1") + kernel("filter_step_2", "in[i] + in[i]"),
        "cases/q11.cu": kernel("query"),
        "cases/q12.cu": kernel("query", "in[i] + in[i]"),
        "how.cu": kernel("blur_rows") + kernel("blurRowsSharedMem", "in[i] + in[i]"),
    }
    assert set(pairs(tmp_path, files)) == {"blur_rows-blurRowsSharedMem"}


def test_copies_of_a_version_are_no_versions(tmp_path: Path) -> None:
    files = {
        "1_scale.cu": kernel("scale_v1"),
        "2_scale.cu": "// the same again\n" + kernel("scale_v1"),
        "3_scale.cu": kernel("scale_again"),
        "4_scale.cu": kernel("scale_v4", "in[i] + in[i]"),
    }
    assert set(pairs(tmp_path, files)) == {"scale_v1-scale_v4"}


def test_numbers_behind_a_letter_say_which_case_a_kernel_is(tmp_path: Path) -> None:
    norms = kernel("l1_norm", "fabsf(in[i])") + kernel("l2_norm", "in[i] * in[i]")
    versions = kernel("norm_v1", "in[i] * in[i]") + kernel("norm_v2", "powf(in[i], 2.0f)")
    polynomials = kernel("legendreP1", "in[i]") + kernel("legendreP2", "1.5f * in[i] * in[i] - 0.5f")
    types = kernel("round_fp16", "rintf(in[i])") + kernel("round_fp32", "in[i]")
    sizes = kernel("route128", "in[i] * 128") + kernel("route384", "in[i] * 384")
    files = {"norms.cu": norms + versions + polynomials + types + sizes}
    steps = kernel("advance0", "in[i] + 0") + kernel("advance1", "in[i] + 1")
    singles = kernel("single128", "in[i] * 128") + kernel("single384", "in[i] * 3 * 128")
    files["steps.cu"] = steps + singles
    tiles = kernel("copy_tile64", "in[i]") + kernel("copy_tile128", "in[i] + 0.0f")
    assert set(pairs(tmp_path, {**files, "tiles.cu": tiles})) == {
        "norm_v1-norm_v2",
        "copy_tile64-copy_tile128",
    }


def test_numbers_at_the_end_of_files_are_versions_of_what_stands_before_them(tmp_path: Path) -> None:
    files = {
        "decode_t1_split1.cu": kernel("decode", "in[i]"),
        "decode_t1_split2.cu": kernel("decode", "in[i] + 0.0f"),
        "decode_t5_bound_split4.cu": kernel("decode", "in[i] * 5"),
        "decode_sm100.cu": kernel("decode", "in[i] * 100"),
        "decode_sm120.cu": kernel("decode", "in[i] * 120"),
    }
    assert set(pairs(tmp_path, files)) == {"decode_t1_split1-decode_t1_split2"}
