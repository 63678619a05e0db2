"""Kernels in Python strings and notebooks: each is found, and its span leads back into the file."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import run
from kcurate.forms import readers
from kcurate.records import Kernel, Summary

BODY = "(float *x, int n) {\n  int i = threadIdx.x;\n  if (i < n) x[i] = 2;\n}\n"
KERNEL = f"__global__ void twice{BODY}"
TRITON = (
    "import triton\nimport triton.language as tl\n\n@triton.jit\ndef add(p, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    tl.store(p + i, tl.load(p + i) + 1)\n"
)


def extracted(tmp_path: Path, files: dict[str, str | bytes]) -> tuple[dict[str, Kernel], Summary, list[str]]:
    """The kernels of a tree by name, the summary, and the notes."""
    root = tmp_path / "tree"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    notes: list[str] = []
    config = ExtractConfig((root,), tmp_path / "work", compile=False, jobs=1)
    summary = run(config, note=notes.append)
    records = sorted((tmp_path / "work" / "kernels").rglob("kernel.json"))
    kernels = [store.read_json(path, Kernel) for path in records]
    return {kernel.name: kernel for kernel in kernels}, summary, notes


def code_of(tmp_path: Path, kernel: Kernel) -> str:
    return store.read_kernel_code(tmp_path / "work" / "kernels" / kernel.id)


def at_span(tmp_path: Path, kernel: Kernel) -> str:
    data = (tmp_path / "tree" / kernel.span.path).read_bytes()
    assert data.count(b"\n", 0, kernel.span.start_byte) + 1 == kernel.span.start_line
    return data[kernel.span.start_byte : kernel.span.end_byte].decode()


NAMED = KERNEL.replace("= 2", "= V")
BRACES = KERNEL.replace("{", "{{").replace("}", "}}").replace("= 2", "= {N}")
TYPED = KERNEL.replace("float", "%(T)s")
CONSTANT = [
    (f'import cupy\nk = cupy.RawKernel(r"""\n{KERNEL}""", "twice")\n', "x[i] = 2;"),
    (f'N = 2\nHEAD = "#define V 7\\n"\nsource = HEAD + """{NAMED}"""\n', "x[i] = V;"),
    (f'N = 4 * 2\nsource = f"""{BRACES}"""\n', "x[i] = 8;"),
    (f'T = """{TYPED}"""\ndef f():\n    return build(T % {{"T": "double"}})\n', "double *x"),
    (f"m = SourceModule({KERNEL!r})\n", "x[i] = 2;"),
    (
        f'class M:\n    SRC = """{KERNEL}"""\n    def f(self):\n        return build(self.SRC.strip())\n',
        "= 2;",
    ),
    (f'if big:\n    V = 3\nelse:\n    V = 4\ns = """{NAMED}""".replace("= V", f"= {{V}}")\n', "x[i] = 3;"),
    (f'load_inline(name="m", cuda_sources=["#define V 7\\n", """{NAMED}"""])\n', "= V;"),
    (f"answer = {('source = ' + repr(KERNEL))!r}\n", "x[i] = 2;"),
    (f'# é\nk = R("é"); s = """\n// é\n{KERNEL}"""\n', "x[i] = 2;"),
]


@pytest.mark.parametrize(("python", "constant"), CONSTANT)
def test_constant_strings_of_python_are_programs(tmp_path: Path, python: str, constant: str) -> None:
    kernels, summary, _ = extracted(tmp_path, {"answer.py": python})
    kernel = kernels["twice"]
    assert constant in code_of(tmp_path, kernel)
    assert (kernel.span.path, kernel.root.startswith("answer.py/")) == ("answer.py", True)
    assert at_span(tmp_path, kernel).startswith("__global__ void twice(")
    assert summary.counts["__global__"] == {"kernel": 1}
    assert summary.counts["files"] == {"extracted": 1}


def test_launches_beside_a_kernel_in_a_string_have_the_files_lines(tmp_path: Path) -> None:
    python = f'\n\nsource = """\n{KERNEL}void run(float *x, int n) {{ twice<<<1, n>>>(x, n); }}\n"""\n'
    kernels, _, _ = extracted(tmp_path, {"answer.py": python})
    [site] = kernels["twice"].launch_sites
    assert (site.path, python.splitlines()[site.line - 1][:9]) == ("answer.py", "void run(")


def test_two_programs_of_a_file_do_not_mix(tmp_path: Path) -> None:
    programs = [f"#define V {value}\n{KERNEL.replace('= 2', '= V')}" for value in (5, 6)]
    python = "\n".join(f'a = RawKernel("""{text}""", "twice")' for text in programs)
    _, summary, _ = extracted(tmp_path, {"answer.py": python})
    codes = [path.read_text() for path in sorted((tmp_path / "work" / "kernels").rglob("kernel.cu"))]
    assert [("#define V 5" in code, "#define V 6" in code) for code in codes] == [
        (True, False),
        (False, True),
    ]
    assert summary.counts["__global__"] == {"kernel": 2}


def test_a_text_that_is_not_known_is_a_reason_at_its_line(tmp_path: Path) -> None:
    python = f'import sys\n\ns = """{KERNEL.replace("float", "%s")}""" % sys.argv[1]\n'
    _, summary, notes = extracted(tmp_path, {"a.py": python, "b.cu": KERNEL})
    [lost] = [each for each in summary.results if each.outcome == "computed_text"]
    assert lost.id == "a.py:3 twice" and "depends on sys.argv[1]" in lost.why
    assert summary.counts["__global__"] == {"computed_text": 1, "kernel": 1}
    assert any("2 __global__ in the text, all accounted for" in note for note in notes)


def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    python = f'open({str(ran)!r}, "w")\ns = """{KERNEL}""" + f"// {{open({str(ran)!r}, \'w\')}}"\n{TRITON}'
    extracted(tmp_path, {"a.py": python, "b.cu": KERNEL})
    assert not ran.exists()


def notebook(*cells: str, indent: int | None = None) -> str:
    sources = [cell.splitlines(keepends=True) for cell in cells]
    listed = [{"cell_type": "markdown", "source": ["# Kernels\n"]}]
    listed += [{"cell_type": "code", "metadata": {}, "outputs": [], "source": each} for each in sources]  # type: ignore[misc]
    return json.dumps({"cells": listed, "nbformat": 4, "nbformat_minor": 5}, indent=indent)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    ("cells", "cell"),
    [
        (["x = 1\n", f"%%cu\n{KERNEL}"], 2),
        ([f"%%writefile sub/k.cu\n{KERNEL}", "!nvcc sub/k.cu\n"], 1),
        (
            [
                "%pip install cupy\nimport cupy\n",
                f'!nvidia-smi\nk = cupy.RawKernel("""\n{KERNEL}""", "twice")\n',
            ],
            2,
        ),
        ([f"%%cuda_group_save -n 'k.cu' -g 'one'\n// \"é\" \\n\n{KERNEL}"], 1),
        ([f"{KERNEL}int main() {{}}\n"], 1),
    ],
)
def test_cells_of_notebooks_are_read(tmp_path: Path, cells: list[str], cell: int, indent: int | None) -> None:
    kernels, _, _ = extracted(tmp_path, {"lesson.ipynb": notebook(*cells, indent=indent)})
    kernel = kernels["twice"]
    assert (kernel.span.path, kernel.span.cell) == ("lesson.ipynb", cell)
    assert at_span(tmp_path, kernel).startswith("__global__ void twice(")
    assert code_of(tmp_path, kernel).endswith(KERNEL)


def test_a_cell_includes_what_another_one_writes(tmp_path: Path) -> None:
    cells = (
        "%%writefile value.h\n#define V 9\n",
        f'%%writefile k.cu\n#include "value.h"\n{KERNEL.replace("2", "V")}',
    )
    kernels, _, _ = extracted(tmp_path, {"lesson.ipynb": notebook(*cells)})
    assert "#define V 9" in code_of(tmp_path, kernels["twice"])


def test_triton_in_cells_and_strings_is_read(tmp_path: Path) -> None:
    generated = (
        f"from torch._inductor import async_compile\nk = async_compile.triton('add', '''\n{TRITON}''')\n"
    )
    files: dict[str, str | bytes] = {
        "lesson.ipynb": notebook("%time\n" + TRITON.replace("def add", "def cell"), "add[1](x)\n"),
        "graph.py": generated.replace("def add", "def inner"),
    }
    kernels, summary, _ = extracted(tmp_path, files)
    assert summary.counts["@triton.jit"] == {"kernel": 2}
    assert (kernels["cell"].span.path, kernels["cell"].span.cell) == ("lesson.ipynb", 1)
    assert at_span(tmp_path, kernels["inner"]).startswith("@triton.jit\ndef inner(")


@pytest.mark.parametrize("name", ["k.hip", "k.cuda", "k.cu.in", "k.inl", "K.CU.IN"])
def test_endings_of_cuda(tmp_path: Path, name: str) -> None:
    kernels, _, _ = extracted(tmp_path, {name: KERNEL})
    assert kernels["twice"].span.path == name


def test_bad_files_cost_a_line_each_and_the_rest_goes_on(tmp_path: Path) -> None:
    mark = '"__global__ void k(float *x) { x[0] = 1; }"'
    files: dict[str, str | bytes] = {
        "good.cu": KERNEL,
        "text.ipynb": "no JSON",
        "list.ipynb": "[1, 2]",
        "deep.ipynb": "[" * 100_000,
        "utf16.ipynb": notebook(KERNEL).encode("utf-16"),
        "utf16.py": f"x = {mark}".encode("utf-16"),
        "rubbish.ipynb": bytes(range(256)) * 20,
        "python2.py": f"print {mark}\n",
        "deep.py": f"x = {'(' * 5000}{mark}{')' * 5000}\n",
        "sum.py": f"x = {' + '.join([mark] * 3000)}\n",
        "doubled.py": f"s = {mark}\n" + "s = s + s\n" * 40 + "n = [1]\n" + "n = n + n\n" * 40,
        "powers.py": f's = {mark}\nn = 9 ** 64 ** 64\nt = "a" * 10 ** 12\nu = "%1000000000d" % 3\n',
    }
    root = tmp_path / "tree"
    root.mkdir()
    (root / "loop.ipynb").symlink_to("loop.ipynb")
    with (root / "huge.ipynb").open("wb") as file:
        file.truncate(2 << 30)
    files["doubled.py"] = files["doubled.py"].replace("s = s + s\n" * 40, "s = s + s\n" * 3)  # type: ignore[arg-type,union-attr]
    kernels, summary, notes = extracted(tmp_path, files)
    assert "twice" in kernels and "k" in kernels
    outcomes = {each.id: each.outcome for each in summary.results if each.kind == "files"}
    for name in ("text.ipynb", "list.ipynb", "deep.ipynb", "python2.py", "deep.py", "sum.py"):
        assert outcomes[name] == "reader_failed"
        assert sum(note.startswith(f"{name}: ") for note in notes) == 1
    assert outcomes["utf16.ipynb"] == outcomes["utf16.py"] == "utf_16"
    assert outcomes["rubbish.ipynb"] == "binary" and outcomes["huge.ipynb"] == "too_large"
    assert outcomes["loop.ipynb"] == "broken_link"


@pytest.mark.parametrize(
    "expression",
    [
        "a.replace('x', b)",
        f"{'{0}' * 30_000!r}.format(b)",
        f"{'%(b)s' * 30_000!r} % {{'b': b}}",
        f"string.Template({'$b ' * 30_000!r}).substitute(b=b)",
    ],
)
def test_a_text_that_would_fill_memory_is_not_made(expression: str) -> None:
    kernel = "__global__ void k(int* p) { " + "x" * 30_000 + " }"
    source = f"a = {kernel!r}\nb = {'y' * 100_000!r}\nc = {expression}\n"
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 29), before[1]))
    try:
        names = [part.name for part in readers.parts("a.py", source.encode())]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert names in (["a.cu"], ["c.cu"])


def test_a_cell_for_a_name_that_no_file_has_is_no_file() -> None:
    cells = [
        f"%%writefile {name}\n__global__ void k(int* p) {{}}" for name in ("n" * 300 + ".cu", "a\x1b.cu")
    ]
    listed = [{"cell_type": "code", "source": cell} for cell in cells]
    parts = readers.parts("a.ipynb", json.dumps({"cells": listed}).encode())
    assert [part.name for part in parts] == ["cell0.cu", "cell1.cu"]
