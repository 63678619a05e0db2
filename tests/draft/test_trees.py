"""Which tree a draft's host code is read from, and what is said when none holds the kernel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kcurate.cli import run
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.draft.inferred import from_code
from kcurate.draft.sketch import Draft
from kcurate.draft.stage import FORM_NAME, DraftConfig, draft
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Kernel

SCALE = """
__global__ void scale(float *x, float s, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= s;
}}
int main() {{
  int n = {n};
  float *d;
  cudaMalloc(&d, n * sizeof(float));
  scale<<<(n + {block} - 1) / {block}, {block}>>>(d, 2.0f, n);
}}
"""


def write(folder: Path, n: int, block: int) -> Path:
    """A tree of one file."""
    folder.mkdir(parents=True)
    (folder / "main.cu").write_text(SCALE.format(n=n, block=block))
    return folder


def forms(root: Path) -> dict[str, str]:
    """Each tree's one draft."""
    found = (root / "kernels").rglob(FORM_NAME)
    return {path.relative_to(root / "kernels").parts[0]: path.read_text() for path in found}


@pytest.mark.parametrize("block", [128, 256])
def test_each_kernel_is_read_with_its_own_trees_host_code(tmp_path: Path, block: int) -> None:
    trees = write(tmp_path / "alpha", 5000, 128), write(tmp_path / "beta", 7001, block)
    root = tmp_path / "work"
    extract(ExtractConfig(trees, root, compile=False))
    draft(DraftConfig(root))
    found = forms(root)
    assert "bench = {n = 5000}" in found["alpha"]
    assert "bench = {n = 7001}" in found["beta"]
    assert f"block = [{block}]" in found["beta"]


def test_tree_with_another_launch_is_not_the_kernels(tmp_path: Path) -> None:
    root = tmp_path / "work"
    extract(ExtractConfig((write(tmp_path / "beta", 7001, 256),), root, compile=False))
    lines: list[str] = []
    other = write(tmp_path / "alpha", 5000, 128)
    draft(DraftConfig(root, trees=(other,)), note=lines.append)
    assert "5000" not in forms(root)["beta"]
    assert "# no host code found" in forms(root)["beta"]
    assert all("no host code found" in line for line in lines)


def test_launches_may_stand_in_macros(tmp_path: Path) -> None:
    folder = tmp_path / "gamma"
    folder.mkdir()
    text = SCALE.format(n=6000, block=64)
    launch = text[text.index("  scale<<<") :].removesuffix("}\n")
    macro = "#define RUN(name) \\\n  name<<<(n + 64 - 1) / 64, \\\n    64>>>(d, 2.0f, n);\n"
    (folder / "main.cu").write_text(macro + text.replace(launch, "  RUN(scale)\n"))
    extract(ExtractConfig((folder,), tmp_path / "work", compile=False))
    draft(DraftConfig(tmp_path / "work"))
    assert "no host code found" not in forms(tmp_path / "work")["gamma"]
    assert "bench = {n = 6000}" in forms(tmp_path / "work")["gamma"]


def test_tree_may_be_given_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "here" / "alpha", 5000, 128)
    root = tmp_path / "work"
    monkeypatch.chdir(tmp_path / "here")
    extract(ExtractConfig((Path("alpha"),), root, compile=False))
    (config,) = root.glob("runs/extract-*/config.json")
    assert json.loads(config.read_text())["paths"] == [str(tmp_path / "here" / "alpha")]
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    draft(DraftConfig(root), note=lines.append)
    assert "bench = {n = 5000}" in forms(root)["alpha"]
    assert not any("host code" in line for line in [*lines, forms(root)["alpha"]])


@pytest.mark.slow
def test_draft_without_host_code_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, root = write(tmp_path / "alpha", 5000, 128), tmp_path / "work"
    extract(ExtractConfig((tree,), root, compile=False))
    tree.rename(tmp_path / "moved")
    assert run(["problem", "draft", "-w", str(root)]) == 0
    assert "no host code found" in capsys.readouterr().err
    assert "# no host code found" in forms(root)["alpha"]
    assert run(["problem", "draft", "--again", "--tree", str(tmp_path / "moved"), "-w", str(root)]) == 0
    assert "no host code found" not in capsys.readouterr().err
    assert "bench = {n = 5000}" in forms(root)["alpha"]


def test_missing_tree_is_a_one_line_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "work"
    extract(ExtractConfig((write(tmp_path / "alpha", 5000, 128),), root, compile=False))
    assert run(["problem", "draft", "--tree", str(tmp_path / "no"), "-w", str(root)]) == 1
    assert capsys.readouterr().err.strip().endswith("(name the sources with --tree)")
    assert not forms(root)


def test_launches_of_a_kernel_with_the_same_name_elsewhere_are_ignored(tmp_path: Path) -> None:
    kernel = (
        "namespace {0} {{ __global__ void run(float* x, int n) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) x[i] *= {1};\n}} }}\n"
    )
    source = kernel.format("fast", "2.0f") + kernel.format("slow", "3.0f")
    source += "int main() { int n = 5000; float* x; cudaMalloc(&x, n * sizeof(float));\n"
    source += "fast::run<<<(n + 127) / 128, 128>>>(x, n); slow::run<<<(n + 63) / 64, 64>>>(x, n); }\n"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "both.cu").write_text(source)
    extract(ExtractConfig((tmp_path / "tree",), tmp_path / "work", compile=False))
    draft(DraftConfig(tmp_path / "work"))
    blocks = {}
    for form in (tmp_path / "work").rglob("problem.toml"):
        code = form.with_name("kernel.cu").read_text()
        blocks["fast" if "2.0f" in code else "slow"] = "block = [128]" in form.read_text()
    assert blocks == {"fast": True, "slow": False}


def test_host_code_is_read_with_the_flags_of_the_record(tmp_path: Path) -> None:
    tree = tmp_path / "alpha"
    write(tree / "src", 0, 128)
    (tree / "lib").mkdir()
    (tree / "lib" / "count.h").write_text("#if (SCALE) == 3\nconst int count = 5000;\n#endif\n")
    host = SCALE.format(n="count + PAD", block=128)
    (tree / "src" / "main.cu").write_text('#include "count.h"\n' + host)
    command = "nvcc -Ilib -DSCALE=(3) -DPAD=24 -c src/main.cu"
    entry = {"directory": str(tree), "file": "src/main.cu", "command": command}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    root = tmp_path / "work"
    extract(ExtractConfig((tree,), root, compile=False))
    draft(DraftConfig(root))
    assert "bench = {PAD = 24, count = 5000}" in forms(root)["alpha"]


def test_a_kernel_that_cannot_be_drafted_costs_the_others_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "work"
    trees = tuple(write(tmp_path / name, 5000, 128) for name in ("alpha", "beta", "gamma"))
    extract(ExtractConfig(trees, root, compile=False))
    (record,) = (root / "kernels" / "alpha").rglob("kernel.json")
    record.write_text("{")
    made = from_code.drafts

    def broken(kernel: Kernel, code: str, hosts: Sequence[Code]) -> tuple[Draft, ...]:
        if kernel.source.suite == "beta":
            raise RecursionError("too deep")
        return made(kernel, code, hosts)

    monkeypatch.setattr(from_code, "drafts", broken)
    assert run(["problem", "draft", "-w", str(root), "--json", "--jobs", "1"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["items"]["kernels"] == {"admitted": 1, "failed": 2}
    assert "beta/main/scale: RecursionError: too deep" in said.err
    assert str(record) in said.err.strip().splitlines()[-1]


def test_of_a_folders_programs_each_is_read_with_its_own_names(tmp_path: Path) -> None:
    for name, block, size in (("first", 64, 5000), ("second", 128, 7001), ("third", 256, 9001)):
        text = f"#define BLOCK {block}\nconst int SIZE = {size};\n"
        text += "__global__ void scale(float *x, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        text += "  if (i < n) x[i] *= 2;\n}\nint main() {\n  float *x;\n  int n = SIZE;\n"
        text += (
            "  cudaMalloc(&x, n * sizeof(float));\n  scale<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, n);\n}\n"
        )
        (tmp_path / "alpha").mkdir(exist_ok=True)
        (tmp_path / "alpha" / f"{name}.cu").write_text(text)
    extract(ExtractConfig((tmp_path / "alpha",), tmp_path / "work", compile=False))
    draft(DraftConfig(tmp_path / "work"))
    found = (tmp_path / "work/kernels").rglob(FORM_NAME)
    forms = {path.parent.parent.name: path.read_text() for path in found}
    assert "block = [64]" in forms["first"] and "5000}" in forms["first"]
    assert "block = [128]" in forms["second"] and "7001}" in forms["second"]
    assert "block = [256]" in forms["third"] and "9001}" in forms["third"]


TWO_PASSES = """
__global__ void sums(float *out, const float *in, int n) {
  __shared__ float part[64];
  float own = 0;
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) own += in[i];
  part[threadIdx.x] = own;
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
void run(float *out, float *in, int n) {
  int blocks = min(64, (n + 63) / 64);
  sums<<<blocks, 64>>>(out, in, n);
  sums<<<1, 64>>>(out, out, blocks);
}
"""


def test_of_several_launches_one_that_works_is_taken(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha/main.cu").write_text(TWO_PASSES)
    extract(ExtractConfig((tmp_path / "alpha",), tmp_path / "work", compile=False))
    assert draft(DraftConfig(tmp_path / "work")).items["kernels"] == {"admitted": 1}


def test_an_id_may_also_be_a_path_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write(tmp_path / "alpha", 5000, 128)
    monkeypatch.chdir(tmp_path)
    extract(ExtractConfig((tree,), Path("work"), compile=False))
    assert draft(DraftConfig(Path("work"), ("alpha",))).items["kernels"] == {"admitted": 1}


def test_each_version_in_a_folder_is_read_with_its_own_launch(tmp_path: Path) -> None:
    tree = write(tmp_path / "alpha", 5000, 128)
    other = "__global__ void scale(float *x, float s, int n) {\n  int i = 4 * blockIdx.x + threadIdx.x;\n"
    other += "  if (threadIdx.x < 4 && i < n) x[i] *= s;\n}\n"
    other += "void fast(float *x, int n) { scale<<<(n + 3) / 4, 32>>>(x, 2.0f, n); }\n"
    (tree / "fast.cu").write_text(other)
    root = tmp_path / "work"
    extract(ExtractConfig((tree,), root, compile=False))
    draft(DraftConfig(root))
    found = {path.parent.parent.name: path.read_text() for path in (root / "kernels").rglob(FORM_NAME)}
    assert "block = [128]" in found["main"]
    assert "block = [32]" in found["fast"]
