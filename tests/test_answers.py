"""Published answers: rows, what is recorded of them, the plans that follow, and hostile ones."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch  # noqa: F401 - answers run in processes that need it; `reach` sees here that these tests do

from kcurate.answers import host_text, plans, rows, stage
from kcurate.answers.building import Builder, Built
from kcurate.answers.settings import ImportConfig
from kcurate.answers.worker import AnswerProcess
from kcurate.core import time_limits
from kcurate.errors import InputError
from kcurate.judge import JudgeConfig
from kcurate.judge.judging import judge
from kcurate.records import Buffer, Call, Launch, Outcome, Problem, Sizes

MODULE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

batch_size = 16
dim = 4096

def get_inputs():
    return [torch.randn(batch_size, dim)]

def get_init_inputs():
    return []
"""
KERNEL = (
    'extern "C" __global__ void relu(const float* x, float* y, int n) {'
    " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.f); }"
)
ANSWER = f"""
import cupy, torch

kernel = cupy.RawKernel({KERNEL!r}, "relu")

class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.device.type == "cuda"
        y = torch.empty_like(x)
        n = x.numel()
        kernel(((n + 255) // 256,), (256,), (x.data_ptr(), y.data_ptr(), n))
        return y
"""


class NoCompiler:
    """A builder for answers that need none."""

    def build(self, request: Any) -> Built:
        return Built(None, f"no compiler for {request['name']}")


@pytest.fixture(scope="module")
def process() -> Iterator[AnswerProcess]:
    with AnswerProcess(NoCompiler()) as running:  # type: ignore[arg-type]
        yield running


def forward(body: str, before: str = "") -> str:
    """An answer whose forward pass is `body`."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        f"import os, torch\n{before}\nclass ModelNew(torch.nn.Module):\n"
        f"    def forward(self, x):\n{lines}\n        return x\n"
    )


def config(path: Path, workspace: Path, form: str = "kernelbench") -> ImportConfig:
    return ImportConfig(form, path, workspace, licence="MIT", jobs=1)


def row(answer: str) -> rows.Row:
    return rows.Row("1-19", "1-19", MODULE, answer, "2.5")


# Rows.


def test_bad_rows_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = json.dumps(
        {"level_id": 1, "task_id": 19, "ref_code": MODULE, "custom_code": ANSWER, "score_default": "2.5"}
    )
    empty = json.dumps({"level_id": 1, "task_id": 20, "ref_code": MODULE, "custom_code": None})
    (tmp_path / "rows.json").write_text(f"{good}\n{empty}\n[1]\n{good[:-30]}")
    read = list(rows.read("kernelbench", tmp_path / "rows.json"))
    assert isinstance(read[0], rows.Row) and (read[0].id, read[0].claim) == ("1-19", "2.5")
    outcomes = [(bad.id, bad.outcome) for bad in read[1:] if isinstance(bad, rows.Bad)]
    assert outcomes == [("1-20", "no_code"), ("rows.json-3", "unreadable"), ("rows.json-4", "unreadable")]


def test_rows_that_only_unusual_characters_tell_apart_have_ids_of_their_own(tmp_path: Path) -> None:
    names = ["a/b", "a:b", "a-b-2", "a b", "..."]
    row = {"python_code": MODULE, "triton_code": "@triton.jit"}
    lines = (json.dumps({**row, "uuid": name}) for name in names)
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    ids = [row.id for row in rows.read("kernelbook", tmp_path / "rows.jsonl")]
    assert ids == ["a-b", "a-b-2", "a-b-2-2", "a-b-3", "row"]


def test_rows_of_the_other_formats_become_modules(tmp_path: Path) -> None:
    engineer = {
        "Level_ID": 1,
        "Task_ID": 2,
        "Kernel_Name": "k",
        "PyTorch_Code_Functional": MODULE,
        "CUDA_Code": KERNEL,
    }
    (tmp_path / "a.jsonl").write_text(json.dumps({**engineer, "CUDA_Speedup_Native": 1.5}))
    (answer,) = rows.read("cuda-engineer", tmp_path / "a.jsonl")
    assert isinstance(answer, rows.Row) and "load_inline" in answer.answer and answer.claim == "1.5"
    (tmp_path / "b.jsonl").write_text(
        json.dumps({"uuid": 7, "python_code": MODULE, "triton_code": "@triton.jit"})
    )
    (answer,) = rows.read("kernelbook", tmp_path / "b.jsonl")
    assert answer.id == "7"


def test_robust_kbench_numbers_become_constants(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "relu"
    task.mkdir(parents=True)
    source = (
        "import torch\nclass Model:\n    pass\ndef get_inputs(n=3, k=4):\n    return [torch.ones(n, k)]\n"
    )
    (task / "func_forward.py").write_text(source)
    (task / "config_forward.json").write_text(json.dumps({"single_input_configs": [{"n": 8}]}))
    (tmp_path / "results.csv").write_text("task_name,forward,Code,Speedup\nrelu,True,x,2\nrelu,False,x,2\n")
    read = list(rows.read("robust-kbench", tmp_path))
    assert isinstance(read[0], rows.Row) and isinstance(read[1], rows.Bad)
    names: dict[str, Any] = {}
    exec(read[0].reference, names)
    assert tuple(names["get_inputs"]()[0].shape) == (8, 4)


def test_hostile_rows_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    data = {"ref_code": MODULE, "custom_code": ANSWER}
    (tmp_path / "a.jsonl").write_text(
        "\n".join(
            [
                json.dumps({**data, "score_default": 10**400}),
                json.dumps({**data, "level_id": "../\x1b[2J\n", "task_id": "x" * 5000}),
                "[" * 100_000,
            ]
        )
    )
    os.mkfifo(tmp_path / "b.json")  # has no end
    (tmp_path / "c.jsonl").symlink_to("/dev/zero")
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    (tmp_path / "e.csv").write_text(f"ref_code,custom_code\n{'x' * (rows.MAX_LINE_BYTES + 1)},x\n")
    (tmp_path / "f.jsonl").write_text(json.dumps({**data, "level_id": 1, "task_id": 2}))
    read = list(rows.read("kernelbench", tmp_path))
    assert [row.id for row in read if isinstance(row, rows.Row)] == ["2J--" + "x" * 91, "1-2"]
    assert [row.id for row in read if isinstance(row, rows.Bad)] == [
        "a.jsonl-1", "a.jsonl-3", "b.json", "c.jsonl", "d.parquet", "e.csv-1",
    ]  # fmt: skip
    with pytest.raises(InputError, match="not Parquet"):
        list(rows.read("kernelbench", tmp_path / "d.parquet"))


def test_a_row_group_that_ends_its_reader_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes that unpack to a gigabyte, and pages that are elsewhere."""
    monkeypatch.setattr(rows, "MAX_PARQUET_BYTES", 1 << 29)
    bomb = pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), ["y" * (1 << 21)])
    good = pa.array([ANSWER] * 3)
    writer = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 1 << 30}
    for name, middle in (("a.parquet", bomb), ("b.parquet", good.dictionary_encode())):
        columns = [
            {"ref_code": pa.array([MODULE] * len(codes)), "custom_code": codes}
            for codes in (good.dictionary_encode(), middle, good.dictionary_encode())
        ]
        schema = pa.table(columns[0]).schema
        with pq.ParquetWriter(tmp_path / name, schema, **writer) as file:
            for group in columns:
                file.write_table(pa.table(group, schema))
    stored = (tmp_path / "b.parquet").read_bytes()
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    place = pq.ParquetFile(tmp_path / "b.parquet").metadata.row_group(1).column(1).dictionary_page_offset
    (tmp_path / "b.parquet").write_bytes(stored[:place] + bytes([255] * 40) + stored[place + 40 :])
    read = list(rows.read("kernelbench", tmp_path))
    assert [row.answer for row in read if isinstance(row, rows.Row)] == [ANSWER] * 12
    bad = [(row.id, row.why) for row in read if isinstance(row, rows.Bad)]
    assert [(name, why.partition(":")[0]) for name, why in bad] == [
        ("a.parquet-4", "row group 1 (256 rows)"),
        ("b.parquet-4", "row group 1 (3 rows)"),
    ]


def test_a_task_of_robust_kbench_is_a_folder_of_the_checkout(tmp_path: Path) -> None:
    outside, tasks = tmp_path / "outside", tmp_path / "checkout" / "tasks"
    for place in (outside, tasks / "linked", tasks / "relu"):
        place.mkdir(parents=True)
        (place / "config_forward.json").write_text("{}")
    (outside / "func_forward.py").write_text("secret")
    (tasks / "relu" / "func_forward.py").write_text("def get_inputs(): return []\n")
    (tasks / "linked" / "func_forward.py").symlink_to(outside / "func_forward.py")
    lines = [f"{task},True,x,2" for task in ("../../outside", outside, "linked", "missing", "relu")]
    lines.append("relu,True,x,fast")
    (tmp_path / "checkout" / "results.csv").write_text(
        "\n".join(["task_name,forward,Code,Speedup", *lines]) + "\n"
    )
    read = list(rows.read("robust-kbench", tmp_path / "checkout"))
    assert [type(row) for row in read] == [*[rows.Bad] * 4, rows.Row, rows.Bad]
    assert "secret" not in str(read)


# Texts.


def test_launches_become_calls_that_record() -> None:
    source = b"""#include <torch/extension.h>
template <typename T, int N>
__global__ void __launch_bounds__(256) k(const T* x, T* y) { y[0] = __expf(x[N]); }
__device__ float helper(float x) { return __sinf(x); }
void any(at::Tensor x) { AT_DISPATCH_FLOATING_TYPES(x.type(), "any", [&] {}); }
void run(float* x) { if (x) k<float, (1 > 0)><<<dim3(1, 2), 256, 0>>>(x, x); }
"""
    text = host_text.host_text(source).decode()
    assert "<<<" not in text and "__expf" not in text and "__sinf" not in text and "torch" not in text
    assert "if (x) kcurate::configure(dim3(1, 2), 256, 0), k<float, (1 > 0)>(x, x);" in text
    assert 'AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "any"' in text
    assert 'kcurate::launched("k", __PRETTY_FUNCTION__, x, y)' in text


@pytest.mark.parametrize(
    "qualifiers", ["__host__ __device__", "__device__ __host__", "inline __host__ __device__"]
)
def test_what_the_host_may_call_keeps_its_body(qualifiers: str) -> None:
    body = "int ceil_div(int a, int b) { return (a + b - 1) / b; }"
    source = f"__device__ int only() {{ return 1; }}\n{qualifiers} {body}"
    text = host_text.host_text(source.encode()).decode()
    assert "return (a + b - 1) / b;" in text and "return 1;" not in text


def test_device_code_has_only_what_was_launched() -> None:
    source = b"""__global__ void a(int* x) { x[0] = 1; }
template <class T>
__global__ void b(T* x) { x[0] = 2; }
int main() {}
"""
    code = host_text.device_code(source, ["a"])
    assert code is not None and "void a" in code and "void b" not in code and "main" not in code


@pytest.mark.parametrize(
    ("instance", "arguments"),
    [
        ("void k(T*) [with T = float]", ("float",)),
        ("void k(T*) [with T = float; int N = 16]", ("float", "16")),
        ("void k(T*) [T = float, N = 16]", ("float", "16")),
        ("void k(float*)", ()),
    ],
)
def test_template_arguments_of_an_instance(instance: str, arguments: tuple[str, ...]) -> None:
    assert host_text.template_arguments(instance) == arguments


# Plans.


def recording(n: int, m: int, grid: int) -> dict[str, Any]:
    args = [["pointer", 1000], ["pointer", 1 << 40], ["int32", n * m], ["float32", 0.5]]
    launch = {
        "kind": "launch", "name": "k", "instance": "", "grid": [grid, 1, 1], "block": [256, 1, 1],
        "shared_bytes": 0, "args": args,
    }  # fmt: skip
    return {
        "events": [launch],
        "inputs": [{"at": 1000, "shape": [n, m]}],
        "state": {},
        "outputs": [{"at": 1 << 40, "shape": [n, m], "contiguous": True}],
        "memory": [[1000, 4 * n * m, "float32"], [1 << 40, 4 * n * m, "float32"]],
        "earlier": [],
    }


def test_numbers_become_expressions_in_the_sizes() -> None:
    sizes = [
        {"n": 16, "m": 4096},
        {"n": 5, "m": 7},
        {"n": 3, "m": 1031},
        {"n": 16, "m": 2048},
        {"n": 8, "m": 4096},
    ]
    buffer = Buffer("float32", ("n", "m"))
    problem = Problem(Sizes((sizes[1],), sizes[0]), {"x": buffer, "y": buffer})
    grids = [min(-(-s["n"] * s["m"] // 512), 64) for s in sizes]
    recordings = [(s, recording(s["n"], s["m"], grid)) for s, grid in zip(sizes, grids, strict=True)]
    code = "__global__ void k(const float* x, float* y, int count, float by) {}"
    (step,) = plans.plan(code, recordings, problem, Call("Model", ("x",), ("y",))).plan
    assert isinstance(step, Launch)
    assert step.grid == ("min(ceil_div((n * m), 512), 64)",) and step.args[0] == "x"
    capped = [(s, recording(s["n"], s["m"], min(s["m"] + 1, 2048))) for s in sizes]
    (step,) = plans.plan(code, capped, problem, Call("Model", ("x",), ("y",))).plan
    assert isinstance(step, Launch) and step.grid == ("min(m + 1, 2048)",)
    strange = [(s, recording(s["n"], s["m"], 3 + (s["n"] ^ s["m"]))) for s in sizes]
    with pytest.raises(plans.NoPlan, match="the grid of k"):
        plans.plan(code, strange, problem, Call("Model", ("x",), ("y",)))


# Whole rows.


def test_an_answer_becomes_a_pair_that_the_judge_accepts(tmp_path: Path) -> None:
    data = {"level_id": 1, "task_id": 19, "ref_code": MODULE, "custom_code": ANSWER, "score_default": "2.5"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(data))
    summary = stage.run(config(tmp_path / "rows.jsonl", tmp_path / "work"))
    assert summary.counts == {"rows": {"imported": 1}}
    from kcurate.core import store

    (folder,) = store.find_candidates(tmp_path / "work" / "pairs")
    candidate = store.read_candidate(folder)
    assert (candidate.origin.kind, candidate.origin.item, candidate.origin.claim) == (
        "imported",
        "1-19",
        "2.5",
    )
    assert judge(candidate, JudgeConfig(torch=True, orders=0)).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("made", "imported"),
    [
        pytest.param("torch.full((16, 4096), 2.0)", False, marks=pytest.mark.slow),
        ("torch.nn.Parameter(torch.randn(16, 4096) * 2)", False),
        ("torch.empty(16, 4096)", True),
    ],
)
def test_an_answer_that_reads_what_it_made_before_has_no_plan(
    tmp_path: Path, made: str, imported: bool
) -> None:
    """No buffer has those values: a plan would hand the kernel memory that nobody wrote."""
    answer = ANSWER.replace(
        "    def forward",
        f"    def __init__(self):\n        super().__init__()\n        self.own = {made}\n    def forward",
    ).replace("x.data_ptr(), y", "self.own.data_ptr(), y")
    row_of = stage.imported(row(answer), NoCompiler(), config(tmp_path, tmp_path))  # type: ignore[arg-type]
    if imported:
        assert row_of.outcome is stage.RowOutcome.IMPORTED, row_of.why
    else:
        assert (row_of.outcome, row_of.why[:37]) == ("no_plan", "it uses a tensor that it made before,")


@pytest.mark.parametrize(
    ("body", "outcome", "why"),
    [
        ("return torch.relu(x)", "library", "it calls relu of PyTorch"),
        ("try:\n    torch.relu(x)\nexcept:\n    pass", "library", "it calls relu of PyTorch"),
        ("torch.cuda.CUDAGraph()", "graph", "it replays a CUDA graph"),
        ("if x.new_zeros(1).item() > 0: pass", "host_reads", "the host reads a result"),
        ("raise ValueError('no')", "unreadable", "it fails: ValueError: no"),
        ("return x.size(0)", "unreadable", "forward returns something other than tensors"),
        ("torch.utils.cpp_extension.load_inline('k', '', 'x')", "unreadable", "no compiler for k"),
    ],
)  # fmt: skip
def test_what_an_answer_does_instead_is_named(
    process: AnswerProcess, body: str, outcome: str, why: str
) -> None:
    ended = process.record(forward(body), MODULE, {}, 60)
    assert ended["ended"] == outcome and why in f"{ended['detail']} {ended['failed']}"


# Hostile rows. Refused or ended, with nothing harmed; `{place}` is a folder of the test, `{port}` a listener.

HOSTILE = {
    "fork": "while True: os.fork()",
    "program": "os.execv('/bin/sh', ['sh', '-c', 'touch {place}/harm'])",
    "shell": "import subprocess\nsubprocess.run('touch {place}/harm', shell=True, check=True)",
    "write": "open('{place}/harm', 'w').write('x')",
    "delete": "os.remove('{place}/kept')",
    "read": "raise ValueError(open('{place}/kept').read())",
    "network": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)",
    "kill": "os.kill({pid}, 9)",
    "memory": "bytearray(100 << 30)",
    "memory files": "for _ in range(64): os.truncate(os.memfd_create('x'), 1 << 30)",
    "patched": "torch.Tensor.is_contiguous = torch.empty_like = None\nraise ValueError('patched')",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_harms_nothing(process: AnswerProcess, name: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        port = listener.getsockname()[1]
        body = HOSTILE[name].format(place=tmp_path, port=port, pid=os.getpid())
        ended = process.record(forward(body), MODULE, {}, 60)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert ended["ended"] == "unreadable" and "secret" not in json.dumps(ended)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_hanging_module_and_one_that_leaves_are_ended() -> None:
    outcomes = []
    for body in ("while True: pass", "os._exit(0)"):
        with AnswerProcess(NoCompiler()) as running:  # type: ignore[arg-type]
            started_s = time.monotonic()
            outcomes.append(running.record(forward(body), MODULE, {}, 5)["ended"])
            assert time.monotonic() - started_s < 30
    assert outcomes == ["hangs", "dies"]


@pytest.mark.parametrize(
    "strange",
    [
        {"inputs": 3},
        {"events": [], "inputs": [1], "outputs": [{"at": 1}]},
        {"events": [], "failed": {"a": 1}},
    ],
)
def test_a_process_that_sends_nonsense_gives_one_row(
    strange: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nonsense = {"events": [{"kind": "launch"}], "inputs": [], "outputs": [], "failed": [], "repaired": []}
    nonsense |= strange
    monkeypatch.setattr(AnswerProcess, "record", lambda *_: dict(nonsense))
    imported = stage.imported(row(ANSWER), NoCompiler(), config(tmp_path, tmp_path))  # type: ignore[arg-type]
    assert imported.outcome is stage.RowOutcome.UNREADABLE


@pytest.mark.parametrize(
    "joined",
    [
        "return extension.HashTrieMap(1, 2, x, grid=(1,))",
        pytest.param(
            "kernel((9,), (256,), (self.own.data_ptr(), y.data_ptr(), 9))\n        return y",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_answer_that_fails_with_its_bindings_joined_is_read_as_published(
    tmp_path: Path, joined: str
) -> None:
    """Its extension does not build, so it falls back; joined, it refuses its calls, or has no plan."""
    spec = importlib.util.find_spec("rpds.rpds")
    assert spec is not None and spec.origin is not None
    library = Path(spec.origin).read_bytes()  # any extension will do: its functions take no tensors

    class Joined:
        def build(self, request: Any) -> Built:
            return Built(library, "main.cpp:1:1: error: 'HashTrieMap' was not declared in this scope")

    answer = ANSWER + (
        "\nfrom torch.utils.cpp_extension import load_inline\n"
        "try:\n    extension = load_inline('rpds', '', 'x', functions=['HashTrieMap'])\n"
        "except Exception:\n    extension = None\n"
        "class ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.own = torch.randn(16, 4096)\n    def forward(self, x):\n"
        "        if extension is None:\n            return torch.relu(x)\n"
        f"        y = torch.empty_like(x)\n        {joined}\n"
    )
    imported = stage.imported(row(answer), Joined(), config(tmp_path, tmp_path))  # type: ignore[arg-type]
    assert imported.outcome is stage.RowOutcome.LIBRARY, imported.why
    assert "its own code was not used: main.cpp:1:1: error" in imported.why


def test_the_compiler_reads_headers_alone(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "built")
    (tmp_path / "built").mkdir()
    (tmp_path / "kept").write_text("secret")
    place = tmp_path / "place"
    place.mkdir()
    for private in (tmp_path / "kept", Path("/proc/1/cmdline"), Path("/proc/self/environ"), "/etc/passwd"):
        (place / "a.cpp").write_text(f'#include "{private}"\n')
        log = builder._run(["/usr/bin/g++", "-E", "a.cpp"], place, 60)
        assert "Permission denied" in log or "No such file" in log, log
        (place / "a.cpp").write_text(f'asm(".incbin \\"{private}\\"");\n')
        assert "file not found" in builder._run(["/usr/bin/g++", "-c", "a.cpp"], place, 60)
    many = {"name": "x" * 200_000, "cpp": [], "cuda": [], "functions": []}
    assert builder.build(many).why == "the name of its extension is none of a module"


@pytest.mark.slow
def test_a_text_made_to_be_slow_costs_its_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits, "READ_ANSWER_S", 60.0)
    slow = ANSWER + f"\nunused = {'template<>' * 60 + 'x __global__ void other(int* x) {}'!r}\n"
    bad = rows.Bad("2", "no_code", "")
    done = {it.row.id: it.outcome for it in stage.imported_rows([row(slow), bad], config(tmp_path, tmp_path))}
    assert done == {"1-19": stage.RowOutcome.HANGS, "2": stage.RowOutcome.NO_CODE}


@pytest.mark.slow
def test_host_code_of_an_extension_is_recorded(tmp_path: Path) -> None:
    source = KERNEL + (
        "\n#include <torch/extension.h>\ntorch::Tensor run(torch::Tensor x) {"
        " TORCH_CHECK(x.is_cuda()); auto y = torch::empty_like(x); int n = x.numel();"
        " relu<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n); return y; }"
    )
    answer = forward(
        "return extension.run(x)",
        "from torch.utils.cpp_extension import load_inline\n"
        f"extension = load_inline('e', '', {source!r}, functions=['run'])",
    )
    (imported,) = stage.imported_rows([row(answer)], config(tmp_path, tmp_path))
    assert imported.outcome is stage.RowOutcome.IMPORTED
    assert stage.REPAIRED in imported.why, "cpp_sources do not declare it, so PyTorch would not build it"
