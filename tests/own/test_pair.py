"""Two files become a candidate with one problem; what stands in the way is one line, and nothing is lost."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kcurate import cli
from kcurate.core import store
from kcurate.draft.inferred import from_code
from kcurate.errors import InputError
from kcurate.own import launches
from kcurate.own.kernels import find_kernels
from kcurate.own.pair import PairConfig, run
from kcurate.records import Candidate, Kernel, KnownProblem, Launch, Step, ValueArg
from kcurate.verdicts.items import EARLIER_CODE

SLOW = """
__global__ void shift(const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + 1.0f;
}
"""
FAST = """
__global__ void shift_two(const float *x, float *y, int n) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i] + 1.0f;
  if (i + 1 < n) y[i + 1] = x[i + 1] + 1.0f;
}
"""
TYPED = FAST.replace("float *", "T *").replace("__global__", "template <class T, int STEP>\n__global__")
LAUNCHES = {"slow_launch": "(n + 127) / 128, 128", "fast_launch": "(n + 511) / 512, 256"}


NO_LAUNCHES = {
    "128": "not a launch: '128'",
    "<<<1, 128": "not a launch",
    "1, 128>>>": "not a launch",
    "<<<1, 128, 0, 0, 0>>>": "not a launch",
    "<<<1>>>": "not a launch",
    "<<<, 128>>>": "not a launch",
    "n": "not a launch",
    "<<<(m + 127) / 128, 128>>>": r"grid: shift is passed no integer m \(its integers: n\), write a number",
    "<<<(x + 127) / 128, 128>>>": "grid: shift is passed no integer x",
    "(n + 127) / 128, n": "the block is not a number",
    "(n + 127) / 128, 2048": "a block has 1 to 1024 threads",
    "(n + 127) / 128, dim3(64, 64)": "a block has 1 to 1024 threads",
    "n, 128, 2 * sizeof(lost)": "shared memory: '2 \\* sizeof\\(lost\\)' is not understood",
    "blocks(n), 128": "grid: 'blocks\\(n\\)' is not understood",
    "shift_two<<<n, 128>>>(x, y, n)": "it launches shift_two, not shift",
    "shift<<<n, 128>>>(x, n)": "3 parameters, 2 arguments",
    "shift<<<n, 128>>>(x, y, m)": "grid: shift is passed no integer n",
}
FORMS: dict[str, tuple[object, ...]] = {
    "(n + 63) / 64, 64": ("ceil_div(n, 64)", 64),
    "<<<(n + 63) / 64, 64>>>": ("ceil_div(n, 64)", 64),
    " <<< dim3((n + 63) / 64) , dim3(64) , 0 , 0 >>> ; ": ("ceil_div(n, 64)", 64),
    "<<<dim3{n, 1, 1}, dim3{1}>>>": ("n", 1),
    "<<<n, 64, 64 * sizeof(float)>>>": ("n", 64, 256),
    "<<<n, 64, (2 * sizeof(unsigned long long) + sizeof(int *)) * 64>>>": ("n", 64, 1536),
    "shift<<<(n - 1) / 64 + 1, 64>>>": ("((n - 1)/64) + 1", 64),
    "shift<<<ceil_div(m, 64), 64, 0, stream>>>(d_x, d_y, m);": ("ceil_div(m, 64)", 64),
}


def files(folder: Path, slow: str = SLOW, fast: str = FAST) -> dict[str, str]:
    """Two files; how a configuration names them."""
    for name, text in (("slow", slow), ("fast", fast)):
        (folder / f"{name}.cu").write_text(text)
    return {"slow": str(folder / "slow.cu"), "fast": str(folder / "fast.cu")}


def paired(folder: Path, name: str = "shift-shift_two") -> Candidate:
    return store.read_candidate(folder / "work" / "pairs" / "own" / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace where both kernels were drafted and paired."""
    folder = tmp_path_factory.mktemp("own") / "mine"
    folder.mkdir()
    config = PairConfig(**files(folder), workspace=folder / "work", licence="mit", **LAUNCHES)
    assert run(config).items == {"pairs": {"admitted": 1}}
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "mine"))


def test_kernels_that_nothing_launches_are_paired_by_launches_that_were_given(made: Path) -> None:
    pair = paired(made)
    assert (pair.license, pair.origin.kind, pair.origin.problem) == ("MIT", "natural", "drafted")
    assert pair.slow.plan == (Launch("shift", ("ceil_div(n, 128)",), (128,), ("x", "y", "n")),)
    assert pair.fast.plan == (Launch("shift_two", ("ceil_div(n, 512)",), (256,), ("x", "y", "n")),)


def test_a_second_run_finds_what_the_first_one_made(copy: Path) -> None:
    before = paired(copy)
    drafts = set((copy / "work" / "runs").glob("problem-draft-*"))
    run(PairConfig(**files(copy), workspace=copy / "work", licence="MIT"))
    assert paired(copy) == before
    assert set((copy / "work" / "runs").glob("problem-draft-*")) == drafts


def test_a_problem_recorded_beside_a_kernel_is_preferred(copy: Path) -> None:
    (record,) = (copy / "work").rglob("shift/problem.json")
    known = store.read_json(record, KnownProblem)
    sizes = replace(known.problem.sizes, bench={"n": 12345})
    recorded = replace(known, problem=replace(known.problem, sizes=sizes))
    store.write_json(record, recorded)
    run(PairConfig(**files(copy), workspace=copy / "work", name="recorded"))
    found = paired(copy, "recorded").problem
    assert found is not None and found.sizes.bench == {"n": 12345}


def test_a_problem_of_the_same_kernel_from_another_folder_is_taken(copy: Path) -> None:
    other = copy / "elsewhere"
    other.mkdir()
    run(PairConfig(**files(other), workspace=copy / "work", name="again"))
    assert paired(copy, "again").problem == paired(copy).problem


def test_a_draft_that_was_edited_since_is_checked_again(copy: Path) -> None:
    (form,) = (copy / "work").rglob("shift/problem.toml")
    form.write_text(form.read_text().replace("bench = {n = ", "bench = {n = 1"))
    run(PairConfig(**files(copy), workspace=copy / "work", name="edited"))
    before, after = (paired(copy, name).problem for name in ("shift-shift_two", "edited"))
    assert before is not None and after is not None
    assert str(after.sizes.headline["n"]) == f"1{before.sizes.headline['n']}"


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_a_launch_is_read_alike(copy: Path, text: str) -> None:
    (slow, _) = find_kernels(tuple(files(copy).values()), copy / "work")
    (site,) = launches.written(text, slow, "--slow-launch").launch_sites
    draft = from_code.drafts(replace(slow.kernel, launch_sites=(site,)), SLOW, [])[0]
    (launch,) = (step for step in draft.known.sides[""].plan if isinstance(step, Launch))
    grid, block, *shared = FORMS[text]
    assert (launch.grid, launch.block, [launch.shared_bytes]) == ((grid,), (block,), shared or [0])


def test_another_launch_than_before_is_not_passed_over(copy: Path) -> None:
    options = {**LAUNCHES, "slow_launch": "<<<(n + 63) / 64, 64>>>"}
    run(PairConfig(**files(copy), workspace=copy / "work", name="other", **options))
    (launch,) = paired(copy, "other").slow.plan
    assert isinstance(launch, Launch) and launch.block == (64,)


def test_a_bare_kernel_is_launched_as_its_code_leaves_it_and_the_guess_is_printed(tmp_path: Path) -> None:
    lines: list[str] = []
    run(PairConfig(**files(tmp_path), workspace=tmp_path / "work"), note=lines.append)
    pair = paired(tmp_path)
    assert pair.slow.plan == (Launch("shift", ("ceil_div(n, 256)",), (256,), ("x", "y", "n")),)
    assert pair.fast.plan == (Launch("shift_two", ("ceil_div(n, 512)",), (256,), ("x", "y", "n")),)
    guesses = [line for line in lines if "guessed" in line]
    assert (
        "slow.cu:shift: nothing launches it, guessed from its code: <<<(n + 255) / 256, 256>>>" in guesses[0]
    )
    assert "--fast-launch" in guesses[1]
    assert pair.description.endswith(" Launches guessed: shift, shift_two.")


# Its block is what the code counts with, as the guess reads it.
TILED = """
#define THREADS {threads}
__global__ void shift_two(const float *x, float *y, int n) {{
  __shared__ float tile[THREADS];
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) {{ tile[threadIdx.x] = x[i]; y[i] = tile[threadIdx.x] + 1.0f; }}
}}
"""


@pytest.mark.parametrize("edited", [False, True])
def test_a_launch_that_was_guessed_is_guessed_again_for_other_code(copy: Path, edited: bool) -> None:
    (copy / "tiled").mkdir()
    lines: list[str] = []

    def launch(threads: int) -> Step:
        given = files(copy / "tiled", fast=TILED.format(threads=threads))
        run(PairConfig(**given, workspace=copy / "work", name="tiled"), note=lines.append)
        return paired(copy, "tiled").fast.plan[0]

    assert launch(64) == Launch("shift_two", ("ceil_div(n, 64)",), (64,), ("x", "y", "n"))
    (form,) = (copy / "work").rglob("tiled/fast/shift_two/problem.toml")
    if not edited:
        assert launch(32) == Launch("shift_two", ("ceil_div(n, 32)",), (32,), ("x", "y", "n"))
        assert not form.with_name("problem.toml.old").exists()
        assert paired(copy, "tiled").description.endswith(" Launches guessed: shift_two.")
        return
    form.write_text(form.read_text() + "# mine\n")
    with pytest.raises(
        InputError, match=r"^fast side, fast\.cu:shift_two: shift_two: thread .*ceil_div\(n, 64\), 64"
    ) as caught:
        launch(32)
    assert "problem or launch" not in str(caught.value.hint)
    assert str(caught.value).endswith(f"; {EARLIER_CODE}: {copy}/work/pairs/own/tiled)")
    stays = f"launched as <<<ceil_div(n, 64), 64>>>, as {form} says; it stays though the code has changed"
    assert [line for line in lines if stays in line]


def test_a_launch_that_is_given_overrules_host_code(tmp_path: Path) -> None:
    """Host code in the same file launches both, the other one as the option says."""
    host = """
        void go(float *x, float *y, int n) {
          shift<<<(n + 63) / 64, 64>>>(x, y, n);
          shift_two<<<(n + 511) / 512, 256>>>(x, y, n);
        }
    """
    (tmp_path / "both.cu").write_text(SLOW + FAST + host)
    sides = (f"{tmp_path}/both.cu:{name}" for name in ("shift", "shift_two"))
    config = PairConfig(*sides, workspace=tmp_path / "work")
    lines: list[str] = []
    run(replace(config, fast_launch="<<<(n + 63) / 64, 64>>>"), note=lines.append)
    assert not [line for line in lines if "no host code" in line or "guessed" in line]
    (slow,), (fast,) = paired(tmp_path).slow.plan, paired(tmp_path).fast.plan
    assert isinstance(slow, Launch) and (slow.grid, slow.block) == (("ceil_div(n, 64)",), (64,))
    assert isinstance(fast, Launch) and (fast.grid, fast.block) == (("ceil_div(n, 64)",), (64,))
    with pytest.raises(InputError, match=r"fast side, .*do not agree") as caught:
        run(replace(config, fast_launch="<<<1, 64>>>"))
    assert str(caught.value.hint).startswith("correct --fast-launch, the code, or ")


def test_a_draft_that_cannot_be_used_is_named(copy: Path) -> None:
    """The other side's problem serves both; the damaged file stays."""
    (form,) = (copy / "work").rglob("shift/problem.toml")
    form.write_text("x = [")
    lines: list[str] = []
    run(PairConfig(**files(copy), workspace=copy / "work"), note=lines.append)
    assert [line for line in lines if line.startswith(f"{form}: not used: not TOML")]
    assert form.read_text() == "x = ["


def test_a_launch_that_rounds_to_no_block_is_a_narrower_claim(tmp_path: Path) -> None:
    given = files(tmp_path, ADD, ADD.replace("add(", "add_all(").replace("x[i] + y[i]", "y[i] + x[i]"))
    notes: list[str] = []
    run(PairConfig(**given, workspace=tmp_path / "work", fast_launch="n / 256, 256"), note=notes.append)
    claim = "The sides agree only where n is a multiple of 256; else fast.plan[0]: grid.x is 0"
    assert [note for note in notes if note.startswith(claim)]
    assert claim in paired(tmp_path, "add-add_all").description


def test_sides_with_other_parameters_are_told_so_whatever_the_emulator_meets(tmp_path: Path) -> None:
    """What `y` is to one side is an input of the other, so the emulator finds a write to an input."""
    times = """
__global__ void times(const float *a, const float *b, double *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] * b[i];
}
"""
    what = (
        r"fast\.cu:times: no parameter for double\* c among .*; without it, .* \(give both kernels the same"
    )
    with pytest.raises(InputError, match=what):
        run(PairConfig(**files(tmp_path, fast=times), workspace=tmp_path / "work"))


def test_a_launch_that_failed_is_not_taken_up_again_and_one_that_did_not_is_printed(copy: Path) -> None:
    config = PairConfig(**files(copy), workspace=copy / "work")
    lines: list[str] = []
    with pytest.raises(InputError, match=r"fast side, fast\.cu:shift_two: the sides do not agree"):
        run(replace(config, fast_launch="1, 32"))
    run(config, note=lines.append)
    (launch,) = paired(copy).fast.plan
    assert isinstance(launch, Launch) and launch.grid == ("ceil_div(n, 512)",)
    assert [line for line in lines if "fast.cu:shift_two: nothing launches it, guessed" in line]
    (form,) = (copy / "work").rglob("shift/problem.toml")
    assert (
        f"slow.cu:shift: launched as <<<ceil_div(n, 128), 128>>>, as {form} says (else: --slow-launch LAUNCH)"
        in lines
    )


TEMPLATE = """
template <int STEP> __global__ void shift_two(const float *x, float *y, int n) {
  for (int k = 0; k < STEP; k++) {
    int i = (blockIdx.x * STEP + k) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
  }
}
"""


def test_a_template_that_nothing_launches_asks_for_its_arguments(copy: Path) -> None:
    (copy / "bare").mkdir()
    config = PairConfig(**files(copy / "bare", fast=TEMPLATE), workspace=copy / "work", name="template")
    asks = (
        r"fast\.cu:shift_two: shift_two is a template and nothing says STEP "
        r"\(as in --fast-launch 'shift_two<256><<<64, 256>>>'\)"
    )
    for launch in (None, "(n + 255) / 256, 128"):
        with pytest.raises(InputError, match=asks):
            run(replace(config, fast_launch=launch))
    run(replace(config, fast_launch="shift_two<2><<<(n + 255) / 256, 128>>>"))
    (launched,) = paired(copy, "template").fast.plan
    assert isinstance(launched, Launch) and launched.template == ("2",)


FLOATS = """
__global__ void twice(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
__global__ void twice4(float4 *y, const float4 *x, float a, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) { float4 v = x[i]; v.x *= a; v.y *= a; v.z *= a; v.w *= a; y[i] = v; }
}
int main() {
  int n = 1 << 20; float *x, *y; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);
  twice<<<(n + 255) / 256, 256>>>(y, x, 2.f, n);
  twice4<<<(n / 4 + 255) / 256, 256>>>((float4 *)y, (const float4 *)x, 2.f, n / 4);
}
"""


@pytest.mark.parametrize(
    ("swapped", "launched"), [(False, True), (True, True), (False, False), (True, False)]
)
def test_each_side_is_passed_what_its_launch_or_its_buffers_say(
    tmp_path: Path, swapped: bool, launched: bool
) -> None:
    source = tmp_path / "mine" / "twice.cu"
    source.parent.mkdir()
    source.write_text(FLOATS if launched else FLOATS.partition("int main")[0])
    names = [f"{source}:twice", f"{source}:twice4"]
    slow, fast = reversed(names) if swapped else names
    run(PairConfig(slow=slow, fast=fast, workspace=tmp_path / "work", name="twice"))
    pair = paired(tmp_path, "twice")
    assert pair.problem is not None and all(setting["n"] % 4 == 0 for setting in pair.problem.sizes.all)
    wide, plain = (pair.slow, pair.fast) if swapped else (pair.fast, pair.slow)
    assert plain.plan == (Launch("twice", ("ceil_div(n, 256)",), (256,), ("y", "x", "a", "n")),)
    (launch,) = wide.plan
    assert isinstance(launch, Launch) and launch.args == ("y", "x", "a", ValueArg("(n/4)"))


def test_host_code_beside_the_kernel_comes_before_a_guess(tmp_path: Path) -> None:
    host = "void go(float *a, float *b, int m) { shift<<<(m + 31) / 32, 32>>>(a, b, m); }\n"
    (tmp_path / "host.cu").write_text("__global__ void shift(const float *, float *, int);\n" + host)
    lines: list[str] = []
    run(PairConfig(**files(tmp_path), workspace=tmp_path / "work"), note=lines.append)
    (launch,) = paired(tmp_path).slow.plan
    assert isinstance(launch, Launch) and launch.block == (32,)
    assert not [line for line in lines if "guessed" in line and "slow.cu" in line]


def test_a_launch_that_is_given_overrules_that_of_the_host_code(tmp_path: Path) -> None:
    host = "int main() { float *x, *y; int n = 1000; shift<<<8, 32>>>(x, y, n); }\n"
    config = PairConfig(**files(tmp_path, slow=SLOW + host), workspace=tmp_path / "work")
    for launch in ("<<<4, 64>>>", None):  # the second run does as the first one
        run(replace(config, slow_launch=launch))
        (launched,) = paired(tmp_path).slow.plan
        assert isinstance(launched, Launch) and (launched.grid, launched.block) == ((4,), (64,))


def test_a_header_that_is_not_found_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "launch.h").write_text("#define ONE 1.0f\n")
    (tmp_path / "src").mkdir()
    lost = '// shifts\n#include <cstdio>\n#include "launch.h"' + SLOW.replace("1.0f", "ONE")
    given = files(tmp_path / "src", lost)
    what = r'slow\.cu:3: "launch\.h" is not found, so shift does not compile .*-I DIR \(searched: \S+/src\)'
    with pytest.raises(InputError, match=what):
        run(PairConfig(**given, workspace=tmp_path / "work"))
    with pytest.raises(InputError, match="no such folder"):
        run(PairConfig(**given, workspace=tmp_path / "work", include_dirs=(tmp_path / "headers",)))
    run(PairConfig(**given, workspace=tmp_path / "work", include_dirs=(tmp_path / "include",)))
    assert "ONE 1.0f" in paired(tmp_path).slow.code
    (tmp_path / "include" / "launch.h").write_text("")
    defined = PairConfig(**given, workspace=tmp_path / "work", include_dirs=(tmp_path / "include",))
    run(replace(defined, define=("ONE=1.00f",)))
    assert "1.00f" in paired(tmp_path).slow.code


def test_a_kernel_that_a_header_of_another_folder_annotates(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "mine.h").write_text("#pragma once\n#define MINE __global__ void\n")
    source = tmp_path / "source.cu"
    source.write_text('#include "mine.h"' + SLOW.replace("__global__ void", "MINE"))
    with pytest.raises(InputError, match=r'"mine\.h" is not found, whose macros may .* -I DIR'):
        find_kernels([str(source)], tmp_path / "work", compile=False)
    (own,) = find_kernels(
        [str(source)], tmp_path / "work", compile=False, include_dirs=(tmp_path / "include",)
    )
    assert own.kernel.name == "shift"


STAGED = """
__global__ void staged(const float *x, float *y, int n) {
  extern __shared__ float s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x] + 1.0f;
}
"""


def test_a_launch_in_the_file_comes_before_that_of_another_file_with_the_same_kernel(tmp_path: Path) -> None:
    host = "void go(float *a, float *b, int m) {{ staged<<<(m + 63) / 64, 64{}>>>(a, b, m); }}\n"
    config = PairConfig(**files(tmp_path, fast=STAGED + host.format("")), workspace=tmp_path / "work")
    (tmp_path / "other.cu").write_text(STAGED + host.format(", 64 * sizeof(float)"))
    with pytest.raises(InputError, match="past the end of dynamic shared memory"):
        run(config)


@pytest.mark.slow
def test_sides_that_differ_are_one_line_and_no_pair(copy: Path) -> None:
    wrong = FAST.replace("y[i + 1] = x[i + 1] + 1.0f", "y[i + 1] = x[i + 1]")
    with pytest.raises(
        InputError, match=r"fast side, fast\.cu:shift_two: the sides do not agree: y: .*shift_two<<<"
    ) as caught:
        run(PairConfig(**files(copy, fast=wrong), workspace=copy / "work", name="wrong"))
    assert "\n" not in str(caught.value)
    assert not (copy / "work" / "pairs" / "own" / "wrong").exists()


@pytest.mark.parametrize(
    ("fast", "options", "what"),
    [
        (
            "__global__ void set(char *order, int n) { if (threadIdx.x < n) order[threadIdx.x] = 1; }\n",
            {},
            r"^fast\.cu:set: no parameter for char\* order .* of slow\.cu:shift",
        ),
        (
            FAST.replace("float *", "double *"),
            {},
            r"^x is const double\* in fast\.cu:shift_two, const float\* in slow\.cu:shift",
        ),
        (
            TYPED,
            {"fast_launch": "shift_two<double, 2><<<n, 128>>>"},
            r"^x is const double\* in fast\.cu:shift_two, const float\* in slow\.cu:shift",
        ),
        (
            TYPED,
            {"fast_launch": "n, 64"},
            r"nothing says T, STEP \(as in --fast-launch 'shift_two<float, 256><<<64, 256>>>'\)",
        ),
        (
            FAST.replace("int n)", "int n, float b)").replace("+ 1.0f", "+ b"),
            {},
            r"^fast\.cu:shift_two: no parameter for float b among .* of slow\.cu:shift \(give both",
        ),
        (
            FAST.replace("n) {", "n) {\n  extern __shared__ float s[];\n  s[threadIdx.x] = 1;"),
            {"fast_launch": "(n + 511) / 512, 256"},
            r"past the end of dynamic shared memory .*the launch's third number, as in --fast-launch '<",
        ),
        (
            FAST.replace("y[i] = x", "y[i - 1] = x"),
            {"fast_launch": "(n + 511) / 512, 256"},
            r"correct --fast-launch, the code, or the problem in \S+problem\.toml[;)]",
        ),
        (SLOW, {}, "both sides are the same code"),
        (FAST.replace("1.0f", "LOST"), {}, r'fast\.cu:4: shift_two does not compile .*"LOST" is undefined'),
        (FAST, {"name": "../out"}, "not a name for a folder"),
        (FAST, {"licence": "mine, all mine"}, "not an SPDX expression"),
        *((FAST, {"slow_launch": text}, rf"--slow-launch: {why}") for text, why in NO_LAUNCHES.items()),
        (
            FAST.replace("shift_two", "other"),
            {"name": "shift-shift_two"},
            "is a pair of other kernels: mine/mine/slow/shift, mine/mine/fast/shift_two",
        ),
    ],
)
def test_what_cannot_be_paired_is_one_line(copy: Path, fast: str, options: dict[str, str], what: str) -> None:
    before = paired(copy)
    with pytest.raises(InputError, match=what):
        run(PairConfig(**files(copy, fast=fast), workspace=copy / "work", **options))
    assert paired(copy) == before


def test_parameters_that_only_one_side_has_are_said_before_anything_runs(copy: Path) -> None:
    lines: list[str] = []
    more = FAST.replace("int n)", "int n, float scale)")
    run(PairConfig(**files(copy, fast=more), workspace=copy / "work", name="more"), note=lines.append)
    said = [line for line in lines if "fast.cu:shift_two: no parameter for float scale among" in line]
    assert said and "of slow.cu:shift" in said[0]


def test_a_pair_of_equal_names_has_that_of_its_files_and_says_that_it_has_no_licence(copy: Path) -> None:
    lines: list[str] = []
    run(
        PairConfig(**files(copy, fast=FAST.replace("shift_two", "shift")), workspace=copy / "work"),
        note=lines.append,
    )
    assert paired(copy, "slow-fast").license is None
    assert "own/slow-fast has no licence, so kcurate build leaves it out: add --licence SPDX" in lines


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["slow.cu", "fast.txt"], "error: fast.txt: is no CUDA source by its name (.cu, .cuda, .cuh, .hip"),
        (["slow.cu", "fast.cu", "third.cu"], "error: third.cu: is no program (pair takes two kernels"),
        (
            ["slow.cu", "fast.cu", "--licence", "Apache 2.0"],
            "error: --licence: not an SPDX expression: 'Apache 2.0' (did you mean Apache-2.0?)",
        ),
    ],
)
def test_a_mistyped_argument_is_one_line(
    copy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    what: str,
) -> None:
    monkeypatch.chdir(copy)
    (copy / "fast.txt").write_text(FAST)
    (copy / "third.cu").write_text(FAST)
    assert cli.run(["pair", *arguments, "-w", "work"]) != 0
    assert capsys.readouterr().err.splitlines()[-1].startswith(what)


def test_open_places_are_listed_with_the_command_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = (
        "__global__ void {0}(float **rows, int n) {{ if (threadIdx.x < n) rows[0][threadIdx.x] = {1}; }}\n"
    )
    host = "void go(float **r, int n) {{ {0}<<<1, 64>>>(r, n); }}\n"
    given = files(tmp_path, *((table + host).format(name, value) for name, value in (("a", 1), ("b", 1.0))))
    assert cli.run(["pair", given["slow"], given["fast"], "-w", str(tmp_path / "work")]) == 1
    err = capsys.readouterr().err.splitlines()
    assert [line for line in err if "problem.toml:" in line and "open: dtype" in line]
    assert err[-1].startswith(f"error: {tmp_path}/work/kernels/") and "places are open" in err[-1]
    again = f"pair {given['slow']} {given['fast']} --licence MIT --name ab"
    assert cli.run([*again.split(), "-w", str(tmp_path / "work")]) == 1
    assert f"then: kcurate {again} -w" in capsys.readouterr().err
    assert f"kcurate pair {given['slow']} {given['fast']} -w {tmp_path}/work" in err[-1]


def test_a_compile_error_has_the_compilers_words_and_the_line_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    given = files(tmp_path, SLOW.replace("x[i] + 1.0f", "x[i] + LOST"))
    with pytest.raises(InputError, match=r'slow\.cu:3: shift .*: identifier "LOST" is undefined') as caught:
        run(PairConfig(**given, workspace=tmp_path / "work"))
    (record,) = (tmp_path / "work").rglob("shift/kernel.json")
    assert str(record) in str(caught.value)
    built = store.read_json(record, Kernel).compiled
    assert built is not None and built.log is not None and "LOST" in built.log


@pytest.mark.parametrize("compile", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("y[i] = x[i] + 1.0f;\n}\n", "y[i] = x[i] + 1.0f;\n", r":3: .* in 'for "),
        ("\n}\n", "\n  x[0]\n  __syncthreads();\n}\n", r":5: .* in '__syncthreads\(\);'"),
        ("x[i] + 1.0f;", "(x[i] + 1.0f;", r":3: .* in 'for "),
        ("x[i] + 1.0f", "x[i] + atomicAdd(3, 4)", r":3: .* in 'for "),
    ],
)
def test_every_compile_error_has_the_compilers_words_and_a_line_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compile: bool, old: str, new: str, what: str
) -> None:
    monkeypatch.setattr("kcurate.own.pair.find_kernels", partial(find_kernels, compile=compile))
    given = files(tmp_path, SLOW.replace(old, new), FAST)
    with pytest.raises(InputError, match=rf"slow\.cu{what}") as caught:
        run(PairConfig(**given, workspace=tmp_path / "work", slow_launch="1, 64"))
    assert "does not compile by itself: " in str(caught.value)


@pytest.mark.slow
def test_a_person_is_asked_for_launches_and_each_answer_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "guess", lambda *_: None)
    monkeypatch.setattr(from_code, "guess", lambda *_, **__: None)  # what a draft would try
    answers = iter(["(n + 127) / 128", "128", ""])
    asked: list[str] = []

    def ask(question: str, value: str) -> str:
        asked.append(question)
        return next(answers)

    run(PairConfig(**files(tmp_path), workspace=tmp_path / "work"), ask=ask)
    assert [question.split(";")[0] for question in asked] == [
        "nothing launches shift", "the block of shift", "nothing launches shift_two",
    ]  # fmt: skip
    (launch,) = paired(tmp_path).fast.plan
    assert isinstance(launch, Launch)
    assert (launch.launch, launch.grid, launch.block) == ("shift_two", ("ceil_div(n, 128)",), (128,))


@pytest.mark.slow
@pytest.mark.parametrize("block", ["128", "0"])
def test_a_person_is_asked_for_open_places_and_the_answers_are_checked(copy: Path, block: str) -> None:
    for path in (copy / "work").rglob("problem.json"):
        path.unlink()
    for path in (copy / "work").rglob("problem.toml"):
        text = re.sub('role = "(in)?out".*', 'role = "?"  # ? in, out or inout', path.read_text())
        path.write_text(re.sub(r"block = .*", 'block = ["?"]  # ? threads', text))
    answers = iter(["out", "[oops", block])
    config = PairConfig(**files(copy), workspace=copy / "work", name="asked")
    lines: list[str] = []
    if block == "128":
        run(config, ask=lambda question, value: next(answers), note=lines.append)
        assert paired(copy, "asked").slow.plan == paired(copy).slow.plan
    else:
        with pytest.raises(InputError, match=r"^slow side, slow\.cu:shift: no problem yet: block\.x is 0"):
            run(config, ask=lambda question, value: next(answers), note=lines.append)
    assert "not a value: [oops" in lines
    assert f"block = [{block}]\n" in next((copy / "work").rglob("shift/problem.toml")).read_text()


ADD = """
__global__ void add(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
"""
FOURS = """
__global__ void add_fours(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 *x4 = (const float4 *)x, *y4 = (const float4 *)y;
  if (i < n / 4) {
    float4 a = x4[i], b = y4[i];
    ((float4 *)z)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }
}
"""
TWOS = """
__global__ void add_twos(const float *x, const float *y, float *z, int n) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 1 < n) { z[i] = x[i] + y[i]; z[i + 1] = x[i + 1] + y[i + 1]; }
}
"""
TWOS_LAUNCHED = (
    f"{TWOS}void go(float *x, float *z, int n) {{ add_twos<<<(n + 511) / 512, 256>>>(x, x, z, n); }}"
)
ONE_SHORT = ADD.replace("add(", "add_short(").replace("i < n", "i < n - 1")


@pytest.mark.parametrize("fast", [FOURS, TWOS, TWOS_LAUNCHED, ONE_SHORT])
def test_a_fast_side_that_leaves_a_rest_out_is_no_pair(tmp_path: Path, fast: str) -> None:
    (tmp_path / "slow.cu").write_text(ADD)
    (tmp_path / "fast.cu").write_text(fast)
    config = PairConfig(f"{tmp_path}/slow.cu", f"{tmp_path}/fast.cu", tmp_path / "work")
    with pytest.raises(InputError, match="do not agree: z: 1 of 1009 elements are wrong: ") as caught:
        run(config)
    assert "fast side" in str(caught.value)
    assert not list((tmp_path / "work").glob("pairs/own/*"))


def test_a_launch_that_states_a_multiple_is_a_narrower_claim_that_is_printed(tmp_path: Path) -> None:
    (tmp_path / "slow.cu").write_text(ADD)
    (tmp_path / "fast.cu").write_text(FOURS)
    notes: list[str] = []
    config = PairConfig(
        f"{tmp_path}/slow.cu",
        f"{tmp_path}/fast.cu",
        tmp_path / "work",
        fast_launch="<<<(n / 4 + 255) / 256, 256>>>",
    )
    run(config, note=notes.append)
    claim = "The sides agree only where n is a multiple of 4; else z: 1 of 1009 elements are wrong"
    assert any(note.startswith(claim) for note in notes)
    pair = store.read_candidate(tmp_path / "work/pairs/own/add-add_fours")
    assert claim in pair.description and pair.problem is not None
    assert all(setting["n"] % 4 == 0 for setting in pair.problem.sizes.test)
