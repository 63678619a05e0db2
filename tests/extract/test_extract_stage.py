"""The stage on small trees of our own: what it finds, what it writes, and that it can be stopped anywhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kcurate.core import resources, store
from kcurate.errors import InputError
from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import Condition, Kernel, Sourced, Summary
from kcurate.suites.manifest import load_manifest
from kcurate.suites.tree import Tree

TREES = Path(__file__).parent.parent / "suites"


def extract(workspace: Path, *paths: Path, **options: object) -> Summary:
    return run(ExtractConfig(paths, workspace, **{"compile": False, **options}))  # type: ignore[arg-type]


def kernels(workspace: Path) -> dict[str, Kernel]:
    found = (store.read_json(path, Kernel) for path in (workspace / "kernels").rglob("kernel.json"))
    return {kernel.id: kernel for kernel in found}


def snapshot(workspace: Path) -> dict[str, bytes]:
    return {
        path.relative_to(workspace).as_posix(): path.read_bytes()
        for part in ("kernels", "pairs")
        for path in sorted((workspace / part).rglob("*"))
        if path.is_file()
    }


def report(workspace: Path, name: str) -> list[dict[str, object]]:
    [path] = (workspace / "runs").glob(f"*/{name}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def parboil(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    folder = tmp_path_factory.mktemp("parboil")  # outside of this repository, whose licence would count
    shutil.copytree(TREES / "parboil", folder / "tree")
    workspace = folder / "work"
    return workspace, extract(workspace, folder / "tree", compile=True, jobs=2)


def test_kernels_of_a_parboil_tree_compile_by_themselves(parboil: tuple[Path, Summary]) -> None:
    workspace, summary = parboil
    found = kernels(workspace)
    assert summary.items["kernels"] == {"compiled": len(found)}
    assert {
        "parboil/scale/cuda_base/kernel/scale_kernel",
        "parboil/twin/cuda/add/add",
        "parboil/gather/cuda_tex/gather/gather",
    } <= set(found)
    assert all(
        kernel.compiled and kernel.compiled.ok and kernel.compiled.registers for kernel in found.values()
    )


def test_every_file_pair_has_its_outcome(parboil: tuple[Path, Summary]) -> None:
    workspace, summary = parboil
    lines = report(workspace, "pairs")
    outcomes = {(line["benchmark"], line["name"]): line["outcome"] for line in lines}
    assert outcomes == {
        ("alone", "alone"): "no_other_variant",
        ("gather", "gather-tex"): "pair",
        ("lost", "found"): "unmatched",
        ("lost", "lost"): "unmatched",
        ("renamed", "potential"): "pair",
        ("scale", "kernel"): "pair",
        ("scale", "main"): "no_device_code",
        ("shift", "kernels-fermi"): "pair",
        ("twin", "add"): "machine_code_identical",
    }
    assert sum(summary.items["pairs"].values()) == len(lines)
    assert summary.items["same_named_files"] == {"machine_code_identical": 1, "no_device_code": 1, "pair": 1}


def test_natural_pairs_are_kept_without_a_problem(parboil: tuple[Path, Summary]) -> None:
    workspace, summary = parboil
    folders = store.find_candidates(workspace / "pairs")
    names = {folder.relative_to(workspace / "pairs").as_posix() for folder in folders}
    assert len(names) == summary.items["pairs"]["pair"] and "parboil/scale/kernel" in names
    candidate = store.read_candidate(workspace / "pairs/parboil/scale/kernel")
    assert candidate.problem is None and candidate.slow.plan == ()
    assert candidate.origin.kind == "natural" and candidate.license is None
    assert candidate.origin.kernels == (
        "parboil/scale/cuda_base/kernel/scale_kernel",
        "parboil/scale/cuda/kernel/scale_kernel",
    )
    assert "#define PER_THREAD 4" in candidate.fast.code and "main(" not in candidate.fast.code


def test_the_record_of_a_kernel_tells_where_it_came_from(parboil: tuple[Path, Summary]) -> None:
    workspace, _ = parboil
    kernel = kernels(workspace)["parboil/scale/cuda/kernel/scale_kernel"]
    data = (TREES / "parboil" / kernel.span.path).read_bytes()
    code = data[kernel.span.start_byte : kernel.span.end_byte]
    assert code.startswith(b"__global__") and code.endswith(b"}")
    assert kernel.root == "benchmarks/scale/src/cuda/main.cu"
    assert [param.name for param in kernel.params] == ["in", "out", "factor", "n"]
    [site] = kernel.launch_sites
    assert site.path == "benchmarks/scale/src/cuda/main.cu" and site.block == "BLOCK"
    assert [argument.role for argument in site.arguments][:2] == ["in", "out"]


def test_a_rodinia_tree_reports_files_below_the_device_fraction(tmp_path: Path) -> None:
    summary = extract(tmp_path, TREES / "rodinia")
    outcomes = {line["path"]: line["outcome"] for line in report(tmp_path, "files")}
    assert outcomes["cuda/path/path.cu"] == "below_device_fraction"
    assert outcomes["cuda/walk/kernel/step.cu"] == "extracted"
    assert outcomes["cuda/group/fold.cu.old"] == "stale_copy"
    assert outcomes["cuda/group/fold.cuh"] == "no_kernel"
    assert sum(summary.items["files"].values()) == len(outcomes)
    assert set(kernels(tmp_path)) == {
        "rodinia/path/path/kernel",
        "rodinia/walk/kernel/step/kernel",
        "rodinia/group/fold/fold",
    }
    relaxed = extract(tmp_path / "relaxed", TREES / "rodinia", min_device_fraction=0.1)
    assert "below_device_fraction" not in relaxed.items["files"]


def test_a_licence_is_that_of_code_of_which_no_manifest_says_one(tmp_path: Path) -> None:
    shutil.copytree(TREES / "generic", tmp_path / "tree")
    extract(tmp_path / "own", tmp_path / "tree", licence="MIT")
    records = kernels(tmp_path / "own").values()
    assert {kernel.source.license for kernel in records} == {"MIT"}
    assert {kernel.rights and kernel.rights.license for kernel in records} == {Sourced("MIT", "--licence")}
    manifest = load_manifest(resources.sources_dir() / "parboil.toml")
    tree = Tree(tmp_path, manifest, facts=True)
    licensed = next(name for name, facts in manifest.benchmarks.items() if facts.license is not None)
    assert tree.source(licensed, "x.cu").license == manifest.benchmarks[licensed].license
    assert tree.source("their-own", "x.cu").license is None


def test_a_suite_at_another_revision_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    manifest = load_manifest(resources.sources_dir() / "rodinia.toml")
    tree, notes = tmp_path / "tree", list[str]()
    for name in sorted(manifest.benchmarks)[:3]:
        (tree / "cuda" / name).mkdir(parents=True)
        (tree / "cuda" / name / "a.cu").write_text("__global__ void k(int *p) { *p = 1; }\n")
    for folder in ("openmp", "common", ".git"):
        (tree / folder).mkdir()
    for revision in ("0123456789abcdef0123456789abcdef01234567", manifest.revision):
        (tree / ".git" / "HEAD").write_text(f"{revision}\n")
        run(ExtractConfig((tree,), tmp_path / str(revision), compile=False), note=notes.append)
    (said,) = [one for one in notes if "revision" in one or "checkout" in one]
    assert said == (
        f"rodinia: {tree} is at 0123456789abcdef0123456789abcdef01234567; its problems and verdicts are of "
        f"{manifest.revision}: run git checkout {manifest.revision}"
    )


def test_a_generic_tree_gives_kernels_and_pairs(tmp_path: Path) -> None:
    summary = extract(tmp_path, TREES / "generic")
    assert set(kernels(tmp_path)) == {
        "generic/rows/naive/sum/row_sum",
        "generic/rows/optimized/sum/row_sum",
        "generic/generic/top/top",
    }
    assert summary.items["pairs"] == {"pair": 1}


@pytest.mark.parametrize("part", ["benchmarks/scale/src/cuda/kernel.cu", "benchmarks/scale"])
def test_a_part_of_a_tree_gives_the_same_kernels_as_the_whole(
    parboil: tuple[Path, Summary], tmp_path: Path, part: str
) -> None:
    whole = parboil[0]
    extract(tmp_path, whole.parent / "tree" / part, compile=True)
    mine = {name: data for name, data in snapshot(tmp_path).items() if name.startswith("kernels")}
    assert mine and mine.items() <= snapshot(whole).items()


def test_output_is_byte_identical_whatever_the_jobs(parboil: tuple[Path, Summary], tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere" / "tree"
    shutil.copytree(TREES / "parboil", copied)
    extract(tmp_path / "w", copied, compile=True, jobs=1)
    assert snapshot(tmp_path / "w") == snapshot(parboil[0])


def test_running_again_rewrites_nothing(parboil: tuple[Path, Summary], tmp_path: Path) -> None:
    shutil.copytree(parboil[0], tmp_path / "w")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "w" / "kernels").rglob("*")}
    start_s = time.monotonic()
    summary = extract(tmp_path / "w", parboil[0].parent / "tree", compile=True)
    assert summary.items["kernels"] == parboil[1].items["kernels"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "w" / "kernels").rglob("*")} == before
    assert time.monotonic() - start_s < 20


def test_changed_code_is_compiled_again_and_a_problem_of_the_user_is_kept(tmp_path: Path) -> None:
    tree = tmp_path / "rows"
    shutil.copytree(TREES / "generic" / "rows", tree)
    workspace = tmp_path / "w"
    extract(workspace, tree)
    folder = workspace / "pairs/rows/rows/sum"
    edited = json.loads((folder / "pair.json").read_text())
    edited["problem"] = {"sizes": {"test": [{"n": 4}], "bench": {"n": 8}}, "buffers": {}}
    (folder / "pair.json").write_text(json.dumps(edited))
    source = tree / "naive" / "sum.cu"
    source.write_text(source.read_text().replace("float sum = 0.0f", "float sum = 1.0f"))
    extract(workspace, tree)
    candidate = store.read_candidate(folder)
    assert candidate.problem is not None and "sum = 1.0f" in candidate.slow.code


def test_the_record_names_the_architecture_that_a_kernel_needs(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    kernels = {
        "plain": 'asm volatile("fence.proxy.async;");',
        "registers": 'asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");',
        "asks": "#ifdef __CUDA_ARCH_SPECIFIC__\nx[0] = 1;\n#endif",
    }
    for name, body in kernels.items():
        code = f"__global__ void __launch_bounds__(128) {name}(float *x)\n{{\n{body}\n}}\n"
        (tree / f"{name}.cu").write_text(code)
    extract(tmp_path / "w", tree, compile=True, jobs=1)
    found = [store.read_json(path, Kernel) for path in (tmp_path / "w" / "kernels").rglob("kernel.json")]
    compiled = {kernel.name: kernel.compiled for kernel in found}
    assert {name: (made.ok, made.arch) for name, made in compiled.items() if made} == {
        "plain": (True, "sm_90"),
        "registers": (True, "sm_90a"),
        "asks": (True, "sm_90"),
    }
    assert b"x[0] = 1" in next((tmp_path / "w" / "kernels").rglob("asks/kernel.cu")).read_bytes()


def test_a_kernel_that_does_not_compile_is_data(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "bad.cu").write_text("__global__ void bad(float *x) { x[0] = no_such_thing(1); }\n")
    (tree / "good.cu").write_text("__global__ void good(float *x) { x[0] = 1; }\n")
    summary = extract(tmp_path / "w", tree, compile=True)
    assert summary.items["kernels"] == {"compile_error": 1, "compiled": 1}
    bad = kernels(tmp_path / "w")["tree/tree/bad/bad"]
    assert bad.compiled is not None and bad.compiled.log is not None and "no_such_thing" in bad.compiled.log


def test_hostile_files_never_stop_the_run(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "good.cu").write_text("__global__ void good(float *x) { x[0] = 1; }\n")
    (tree / "garbage.cu").write_bytes(b"\x00\xff" * 5000 + b"__global__")
    (tree / "noise.cu").write_bytes(b"__global__ \xff\xfe void ((((( <<<>>> #if \r\n#define (\n" * 200)
    (tree / "deep.cu").write_bytes(b"__global__ void deep() " + b"{" * 20000 + b"}" * 20000)
    (tree / "ring_a.cu").write_text('#include "ring_b.cu"\n__global__ void a(int *x) { x[0] = 1; }\n')
    (tree / "ring_b.cu").write_text('#include "ring_a.cu"\n__global__ void b(int *x) { x[0] = 2; }\n')
    (tree / "latin1.cu").write_bytes(
        "// Größe\r\n__global__ void latin(int *x)\r\n{ x[0] = 3; }\r\n".encode("latin-1")
    )
    (tree / "outside.cu").write_text(
        '#include "../../../../etc/passwd"\n__global__ void out(int *x) { x[0] = 4; }\n'
    )
    summary = extract(tmp_path / "w", tree)
    assert sum(summary.items["files"].values()) == len(list(tree.iterdir()))
    names = {kernel.name for kernel in kernels(tmp_path / "w").values()}
    assert {"good", "a", "b", "latin", "out"} <= names


def test_kernels_that_share_a_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    body = "{ x[0] += 1; }\n"
    (tree / "two.cu").write_text(
        f"__global__ void k(int *x) {body}__global__ void k(float *x) {body}"
        f"namespace other {{ __global__ void k(int *x) {body} }}\n"
    )
    (tree / "two.cuh").write_text(f"__global__ void k(double *x) {body}")
    summary = extract(tmp_path / "w", tree)
    assert summary.items["kernels"] == {"not_compiled": 4}
    assert len(kernels(tmp_path / "w")) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda tree: tree / "missing", "No such file"),
        (lambda tree: tree, "no CUDA kernel found"),
        (
            lambda tree: _file(tree / "host.cu", "int main() { return 0; }"),
            "no CUDA kernel found .*1 no_kernel",
        ),
        (lambda tree: _file(tree / "data.bin", "x"), "1 not_source"),
        (lambda tree: _link(tree / "self"), "loop|levels|cannot be read"),
        (lambda tree: tree / ("n" * 300), "too long"),
    ],
)
def test_unusable_input_is_one_clear_error(tmp_path: Path, make: object, message: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    assert callable(make)
    with pytest.raises(InputError, match=message) as error:
        extract(tmp_path / "w", make(tree))
    assert "\n" not in str(error.value) and not (tmp_path / "w" / "kernels").exists()


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _link(path: Path) -> Path:
    path.symlink_to(path)
    return path


def test_an_unknown_suite_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="parboil"):
        extract(tmp_path / "w", TREES / "generic", suite="nonsense")


def test_two_trees_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(TREES / "parboil", tmp_path / name)
    with pytest.raises(InputError, match="separate workspaces"):
        extract(tmp_path / "w", tmp_path / "a", tmp_path / "b")


def test_a_killed_run_leaves_nothing_half_written_and_is_finished_by_the_next(
    parboil: tuple[Path, Summary], tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; from kcurate.extract.stage import ExtractConfig, run;"
        "run(ExtractConfig((Path(sys.argv[1]),), Path(sys.argv[2]), jobs=2, compile=True))"
    )
    command = [sys.executable, "-c", code, str(parboil[0].parent / "tree"), str(tmp_path / "w")]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline_s = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline_s:
        if sum(1 for _ in (tmp_path / "w").rglob("kernel.json")) >= 3:
            break
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for path in (tmp_path / "w").rglob("kernel.json"):
        assert store.read_json(path, Kernel).compiled is not None
        assert (path.parent / "kernel.cu").exists()
    extract(tmp_path / "w", parboil[0].parent / "tree", compile=True)
    finished = {name: data for name, data in snapshot(tmp_path / "w").items() if not name.endswith(".tmp")}
    assert finished == snapshot(parboil[0])


def test_kernels_of_macros_that_are_not_expanded_are_reported(tmp_path: Path) -> None:
    tree, workspace, notes = tmp_path / "tree", tmp_path / "work", list[str]()
    tree.mkdir()
    (tree / "make.cuh").write_text("#define MAKE(name) __global__ void name(float *x) {\n#define END }\n")
    (tree / "made.cu").write_text('#include "make.cuh"\nMAKE(one, 1) *x = 1; END\nMAKE(two, 2) *x = 2; END\n')
    with pytest.raises(InputError, match=r"be extracted .*1 no_kernel, 1 unread_kernel.*extraction\.md"):
        extract(workspace, tree)
    (tree / "plain.cu").write_text("__global__ void three(float *x) { *x = 3; }\n")
    summary = run(ExtractConfig((tree,), workspace, compile=False), note=notes.append)
    assert summary.items["files"] == {"extracted": 1, "no_kernel": 1, "unread_kernel": 1}
    assert summary.items["kernels"] == {"not_compiled": 1, "unread": 2}
    assert [line.get("unread_kernels") for line in report(workspace, "files")] == [2, None, None]
    assert "2 kernels were not extracted" in notes[-1]


def test_a_header_macro_for_global_marks_kernels_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "kernel.cuh").write_text("#define KERNEL __global__ void\n")
    for name in ("one", "two"):
        (tmp_path / "tree" / f"{name}.cu").write_text(
            f'#include "kernel.cuh"\nKERNEL {name}(float *x) {{ *x = 1; }}\n'
        )
    extract(tmp_path / "work", tmp_path / "tree")
    assert sorted(kernel.name for kernel in kernels(tmp_path / "work").values()) == ["one", "two"]


def test_a_launch_in_another_file_belongs_to_the_kernel_of_its_namespace(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for space in ("fast", "slow"):
        (tree / f"{space}.cu").write_text(
            f"namespace {space} {{ __global__ void run(int *x) {{ *x = 1; }} }}\n"
        )
    (tree / "host.cu").write_text("void go(int *x) { fast::run<<<1, 128>>>(x); slow::run<<<1, 64>>>(x); }\n")
    extract(tmp_path / "work", tree)
    found = kernels(tmp_path / "work").values()
    blocks = {kernel.span.path: [site.block for site in kernel.launch_sites] for kernel in found}
    assert blocks == {"fast.cu": ["128"], "slow.cu": ["64"]}


def test_a_condition_that_cannot_be_evaluated_is_counted_and_written_into_the_kernels_records(
    tmp_path: Path,
) -> None:
    tree, workspace, notes = tmp_path / "tree", tmp_path / "work", list[str]()
    tree.mkdir()
    (tree / "lost.cu").write_text("#if ASKED(1)\n__global__ void lost(float *x) { *x = 0; }\n#endif\n")
    with pytest.raises(InputError, match=r"#if ASKED\(1\) \(line 1\), which could not be evaluated"):
        extract(workspace, tree)
    (tree / "lost.cu").unlink()
    (tree / "plain.cu").write_text("#if 1\n__global__ void plain(float *x) { *x = 1; }\n#endif\n")
    (tree / "width.cuh").write_text(
        "\n#if WIDTH_OF(float) > 4\n#define WIDE 1\n#else\n#define WIDE 0\n#endif\n"
    )
    for name in ("one", "two"):
        code = f'#include "width.cuh"\n__global__ void {name}(float *x) {{ *x = WIDE; }}\n'
        (tree / f"{name}.cu").write_text(code)
    summary = run(ExtractConfig((tree,), workspace, compile=False), note=notes.append)
    assert summary.items["conditions"] == {"evaluated": 1, "unevaluated": 2}
    found = {kernel.name: kernel.unevaluated for kernel in kernels(workspace).values()}
    condition = Condition("width.cuh", 2, "#if WIDTH_OF(float) > 4", "expected the end, found (")
    assert found == {"plain": (), "one": (condition,), "two": (condition,)}
    assert [line["unit"] for line in report(workspace, "conditions")] == ["one.cu", "two.cu"]
    assert "2 conditions could not be evaluated" in notes[-1]
    records = {path.parent.name: path.read_text() for path in workspace.rglob("kernel.json")}
    assert {name for name, text in records.items() if "unevaluated" in text} == {"one", "two"}
    assert all(b"#define WIDE 0" in path.read_bytes() for path in workspace.rglob("one/kernel.cu"))


@pytest.mark.parametrize(
    ("source", "shims"),
    [
        (
            "class page { std::string s; };\n__global__ void k(int *v) { int page = v[0]; v[1] = page; }\n",
            "needless",
        ),
        (
            "struct event { std::vector<int> all; };\nstruct logger { event last; };\n"
            "__global__ void k(int *v) { int event = 1, logger = 2; v[0] = event + logger; }\n",
            "needless",
        ),
        (
            "using text = std::string;\ntemplate <class T> __device__ T same(T x) { return x; }\n"
            "template <> __device__ text same(text x) { return x; }\n"
            "__global__ void k(int *v) { v[0] = same(v[1]); }\n",
            "needless",
        ),
        (
            'const struct { std::string name; int size; } table[] = {{"a", 3}, {"b", 4}};\n'
            "template <int N> __global__ void k(int *v) { v[0] = N; }\n"
            "void run(int *v) { k<table[0].size><<<1, 1>>>(v); k<5><<<1, 1>>>(v); }\n",
            "failing-instance",
        ),
        (
            "template <class T> __global__ void k(T *v) { v->x = 1; }\n"
            "void run(int *v, int2 *w) { k<int><<<1, 1>>>(v); k<int2><<<1, 1>>>(w); }\n",
            "failing-instance",
        ),
        ("__global__ void k(SCALAR *v, int n) { if (threadIdx.x < n) v[threadIdx.x] = 1; }\n", "build-macro"),
        ("__global__ void k(int *v) { __shared__ int s[TILE]; s[0] = 1; v[0] = s[0]; }\n", "build-macro"),
    ],
)
def test_a_file_that_does_not_compile_is_tried_without_what_it_does_not_need(
    source: str, shims: str, tmp_path: Path
) -> None:
    python = "m = RawModule(code=open('k.cu').read(), options=('-DTILE=32',))\n"
    tree = tmp_path / "tree"
    tree.mkdir()
    _file(tree / "run.py", python)
    _file(tree / "k.cu", source)
    summary = extract(tmp_path / "w", tree, compile=True)
    assert summary.items["kernels"] == {"compiled": 1}
    [kernel] = kernels(tmp_path / "w").values()
    assert shims in kernel.shims
    before = snapshot(tmp_path / "w")
    extract(tmp_path / "w", tree, compile=True)
    assert {path: data for path, data in snapshot(tmp_path / "w").items() if path in before} == before


@pytest.mark.parametrize(
    "source",
    [
        "struct log { std::string text; int n; };\n__global__ void k(log *v) { v->n = 1; }\n",
        # Without it, the primary template would be meant.
        "using text = std::string;\ntemplate <class T> __device__ T same(T x) { return x; }\n"
        "template <> __device__ int same(int x) { text t; return 1; }\n"
        "__global__ void k(int *v) { v[0] = same(v[1]); }\n",
        # Without it, the header's would be meant.
        "#include <cuda_fp16.h>\nnamespace mine {\nstruct half2 { std::string text; };\n"
        "__global__ void k(half2 *v) { v[0] = half2(); }\n}\n",
        "struct log { std::string text; int n; };\n"
        "template <class T> __global__ void k(T *v, log *w) { v->x = w->n; }\n"
        "void run(int *v, int2 *u, log *w) { k<int><<<1, 1>>>(v, w); k<int2><<<1, 1>>>(u, w); }\n",
    ],
)
def test_a_file_that_needs_what_does_not_compile_stays_as_it_was(source: str, tmp_path: Path) -> None:
    summary = extract(tmp_path / "w", _file(tmp_path / "k.cu", source), compile=True)
    assert summary.items["kernels"] == {"compile_error": 1}
    [kernel] = kernels(tmp_path / "w").values()
    assert not {"needless", "failing-instance"} & {*kernel.shims}
    assert "std::string" in (tmp_path / "w" / "kernels" / kernel.id / "kernel.cu").read_text()
