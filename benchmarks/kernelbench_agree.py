"""Do our judge and KernelBench's own evaluator agree? Five answers of ours to each of 20 tasks of level 1.

    python benchmarks/kernelbench_agree.py prepare CHECKOUT --tasks FILE      # no GPU: tasks and answers
    python benchmarks/kernelbench_agree.py run CHECKOUT --tasks FILE --out FILE [--budget-s 230] [--gpu 0]
    python benchmarks/kernelbench_agree.py report --out FILE

Each answer is written in both forms, from the same kernels (`kernelbench_answers`): device code with a plan
for our judge, a module with `ModelNew` for KernelBench's. Both see the sizes that our judge would time: at
the file's own, the evaluator takes a minute to draw the inputs of one answer. The answers of a batch of tasks
are built 16 at once; only then is one run. The evaluator runs `--at-once` answers, so that its times are not
compared, only what it accepts. A row is appended for each answer; tasks that have rows are left out.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import pickle
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelbench_answers import answer, number

from kcurate import prompts
from kcurate.evaluation import kernelbench_protocol
from kcurate.evaluation.completions import Completion
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.kernelbench import tasks
from kcurate.problem import shown
from kcurate.problem.expressions import evaluate
from kcurate.records import Buffer, Launch, Outcome, Side, ValueArg
from kcurate.reward import schemes
from kcurate.reward.answers import Refused, read
from kcurate.reward.task import Task, given_hash

# Without weights, one of each kind of computation or more.
NUMBERS = (1, 3, 12, 15, 19, 21, 22, 23, 24, 25, 26, 29, 38, 39, 47, 48, 49, 89, 94, 96)
BENCH_BYTES = 64 << 20
HONEST = ("plain", "slow")
ACCEPTED = frozenset(one.value for one in Outcome if one.correct)
C_TYPES = {"int32": "int", "int64": "long long", "float32": "float"}
SPOIL = """
extern "C" __global__ void spoil(float* out, long long n) {
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) CHANGE
}
"""
# There and back: right, and slower than it has to be.
DETOUR = """
extern "C" __global__ void detour(const float* from, float* to, long long n) {
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = from[i];
}
"""
CHANGES = {"numerics": "out[i] = out[i] * 1.02f + 0.01f;", "edge": "if (i >= n / 256 * 256) out[i] = 0.0f;"}
MODULE = """\
import torch
from torch.utils.cpp_extension import load_inline

CODE = r'''
CUDA
'''
BINDING = '''
#include <pybind11/pybind11.h>
void run(LONGS);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
'''
built = load_inline(name="LIBRARY", cpp_sources=BINDING, cuda_sources=CODE, no_implicit_headers=True)


class ModelNew(torch.nn.Module):
    def __init__(self, *settings):
        super().__init__()

    def forward(self, GIVEN):
MADE
        built.run(POINTERS)
        return RESULT
"""
# KernelBench's static check asks for these two words and only warns of the operators.
TORCH = """

class ModelNew(Model):
    needed = "__global__ load_inline"
"""


@dataclass(frozen=True)
class Answer:
    """One answer in both forms: a reply for our judge, and a module."""

    kind: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Asked:
    """A task, the module at our bench size, and the answers."""

    task: Task
    module: str
    answers: tuple[Answer, ...]


def prepare(checkout: Path, numbers: tuple[int, ...] = NUMBERS) -> list[Asked]:
    """The tasks, and five answers to each."""
    with tempfile.TemporaryDirectory() as name:
        for path in (checkout / "KernelBench" / "level1").glob("*.py"):
            if int(path.name.partition("_")[0]) in numbers:
                shutil.copy(path, name)
        found = tasks.load(name, bench_bytes=BENCH_BYTES)
        texts = tasks.modules(name, 1, None)
    by_id = {f"kernelbench/level1/{name.strip('_')}": text for name, text in texts.items()}
    return [asked(task, by_id[task.id]) for task in sorted(found.tasks, key=number)]


def asked(task: Task, text: str) -> Asked:
    """A task with its answers; the fifth calls PyTorch (odd tasks) or does not compile."""
    side, problem = answer(task), task.template.problem
    assert side is not None and problem is not None and isinstance(problem.sizes.bench, Mapping)
    sizes = dict(problem.sizes.bench)
    module = at_sizes(text, sizes)
    assert "out" in problem.buffers
    sides = {
        "plain": side,
        "slow": detoured(task, side),
        "numerics": spoilt(task, side, "numerics"),
        "edge": spoilt(task, side, "edge"),
    }
    if number(task) % 2 == 0:
        sides["no-build"] = replace(side, code=side.code + "\nthis is no C;\n")
    given = task.template.slow
    made = [
        Answer(kind, prompts.write_answer(shown.answer_of(one, given)), new_module(task, one, sizes))
        for kind, one in sides.items()
    ]
    if number(task) % 2:
        plan = {"plan": [{"call": "Model", "args": list(given.plan[0].args), "to": ["out"]}]}  # type: ignore[union-attr]
        ours = f"```cuda\n{side.code}```\n```json\n{json.dumps(plan)}\n```\n"
        made.append(Answer("torch", ours, bare(module) + TORCH))
    return Asked(task, module, tuple(made))


def bare(text: str) -> str:
    """A module without comments and docstrings: the word "pass" in one is refused by the static check."""
    tree = ast.parse(text)
    for one in ast.walk(tree):
        if isinstance(one, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(one) is not None:
            one.body = one.body[1:] or [ast.Expr(ast.Constant(None))]
    return ast.unparse(tree)


def at_sizes(text: str, sizes: Mapping[str, int]) -> str:
    """A module whose constants are these sizes; `shape_1` is the second of the tuple `shape`."""
    space: dict[str, Any] = {}
    exec(text, space)
    lines = []
    for name, value in sizes.items():
        whole, _, at = name.rpartition("_")
        if isinstance(space.get(name), int):
            lines.append(f"{name} = {value}")
        elif isinstance(space.get(whole), tuple):
            lines.append(f"{whole} = (*{whole}[:{at}], {value}, *{whole}[{at} + 1 :])")
        else:
            raise SystemExit(f"no constant {name}")
    return f"{text}\n" + "".join(f"{line}\n" for line in lines)


def detoured(task: Task, side: Side) -> Side:
    """A side whose result is copied away and back by a few threads."""
    out, count = _out(task)
    plan = [Launch("detour", (8,), (64,), (*way, count)) for way in (("out", "away"), ("away", "out"))]
    away = Buffer(out.dtype, out.shape, role="scratch")
    return replace(
        side, code=side.code + DETOUR, plan=(*side.plan, *plan), buffers={**side.buffers, "away": away}
    )


def _out(task: Task) -> tuple[Buffer, ValueArg]:
    """The result, and the number of its elements."""
    assert task.template.problem is not None
    out = task.template.problem.buffers["out"]
    return out, ValueArg(" * ".join(f"({one})" for one in out.shape) or "1", "int64")


def spoilt(task: Task, side: Side, kind: str) -> Side:
    """A side of which the result is changed afterwards: everywhere, or past the last whole block of 256."""
    launch = Launch("spoil", (64,), (256,), ("out", _out(task)[1]))
    return replace(side, code=side.code + SPOIL.replace("CHANGE", CHANGES[kind]), plan=(*side.plan, launch))


def new_module(task: Task, side: Side, sizes: Mapping[str, int]) -> str:
    """A side as a module with `ModelNew` that launches its plan at these sizes."""
    problem = task.template.problem
    assert problem is not None
    given = [name for name, one in problem.buffers.items() if one.role == "in"]
    own = {"out": problem.buffers["out"], **side.buffers}
    names = [*given, *own]
    steps = []
    for step in side.plan:
        assert isinstance(step, Launch)
        grid, block = (", ".join(str(evaluate(e, sizes)) for e in axes) for axes in (step.grid, step.block))
        args = ", ".join(_argument(one, sizes) for one in step.args)
        steps.append(f"    {step.launch}<<<dim3({grid}), dim3({block})>>>({args});")
    pointer = "struct At { long long at; template <class T> operator T*() const { return (T*)at; } };\n"
    longs = ", ".join(f"long long p_{name}" for name in names)
    code = f"{side.code}\n{pointer}void run({longs}) {{\n" + "\n".join(steps) + "\n}\n"
    fills = {
        "CUDA": code,
        "LONGS": longs,
        "LIBRARY": f"agree_{hashlib.sha256(code.encode()).hexdigest()[:16]}",
        "GIVEN": ", ".join(given),
        "MADE": "\n".join(_made(name, one, given[0], sizes) for name, one in own.items()),
        "POINTERS": ", ".join(f"{name}.data_ptr()" for name in names),
        # A module's scalar is one element here, and KernelBench's evaluator compares shapes.
        "RESULT": "out[0]" if problem.buffers["out"].shape == (1,) else "out",
    }
    text = MODULE
    for name, value in fills.items():
        text = text.replace(name, value, 1)
    return text


def _made(name: str, one: Buffer, beside: str, sizes: Mapping[str, int]) -> str:
    shape = tuple(evaluate(e, sizes) for e in one.shape)
    return f"        {name} = torch.empty({shape}, dtype=torch.{one.dtype}, device={beside}.device)"


def _argument(one: Any, sizes: Mapping[str, int]) -> str:
    if isinstance(one, str):
        return f"At{{p_{one}}}"
    value = one.value if isinstance(one.value, float) else evaluate(one.value, sizes)
    return f"({C_TYPES[one.dtype]}){value}"


def ours(judge: Judge, task: Task, reply: str) -> tuple[str, str]:
    """What our judge finds of an answer: outcome and detail."""
    found = read(task, reply)
    if isinstance(found, Refused):
        return str(found.outcome), found.detail
    verdict = judge.judge(found.candidate)
    return str(verdict.outcome), verdict.detail


def theirs(batch: list[Asked], tree: Path, gpu: int, at_once: int) -> dict[tuple[str, str], Completion]:
    """What KernelBench's evaluator finds of the answers of a batch, all built before one is run."""
    rows, known = [], []
    for one in batch:
        side = replace(one.task.template.slow, code=one.module)
        task = replace(one.task, template=replace(one.task.template, slow=side))
        known.append(task)
        for at, each in enumerate(one.answers):
            reply = f"```python\n{each.theirs}\n```"
            rows.append(
                Completion(task.id, task.family, given_hash(task), at, 1, "", "", reply, "text", "answered")
            )
    scheme = schemes.make("kernelcompare")
    judged = kernelbench_protocol.judge(rows, known, tree, scheme, gpu=gpu, jobs=16, at_once=at_once)
    kinds = {one.task.id: [each.kind for each in one.answers] for one in batch}
    return {(row.task, kinds[row.task][row.sample]): row for row in judged}


def run(options: argparse.Namespace) -> None:
    """Judge the tasks that have no rows yet, as far as the budget reaches."""
    begun_s, longest = time.monotonic(), 0.0
    found: list[Asked] = pickle.loads(options.tasks.read_bytes())
    done = {row["task"] for row in _rows(options.out)}
    left = [one for one in found if one.task.id not in done]
    with contextlib.closing(Judge(JudgeConfig("cuda", options.gpu, torch=True))) as judge:
        machine = judge.environment().device
        for at in range(0, len(left), options.batch):
            started_s = time.monotonic()
            if started_s - begun_s + longest > options.budget_s:
                print(f"stopped with {len(left) - at} tasks left; run it again to go on")
                return
            batch = left[at : at + options.batch]
            rivals = theirs(batch, options.checkout.absolute(), options.gpu, options.at_once)
            middle_s = time.monotonic()
            lines = []
            for one in batch:
                for each in one.answers:
                    outcome, detail = ours(judge, one.task, each.ours)
                    rival = rivals[one.task.id, each.kind]
                    row = {"task": one.task.id, "answer": each.kind, "ours": outcome, "theirs": rival.outcome}
                    row |= {"ours_detail": detail[:200], "theirs_detail": (rival.detail or "")[:200]}
                    lines.append(json.dumps({**row, "machine": machine}) + "\n")
            with options.out.open("a") as file:
                file.writelines(lines)
            longest = max(longest, time.monotonic() - started_s)
            spent = middle_s - started_s, time.monotonic() - middle_s
            print(f"{len(batch)} tasks: theirs {spent[0]:.0f} s, ours {spent[1]:.0f} s", flush=True)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(path: Path) -> None:
    """Agreements by kind of answer, and each answer on which the judges differ."""
    rows = _rows(path)
    counts: Counter[tuple[str, bool, bool]] = Counter()
    for row in rows:
        counts[row["answer"], row["ours"] in ACCEPTED, row["theirs"] in ACCEPTED] += 1
        if (row["ours"] in ACCEPTED) != (row["theirs"] in ACCEPTED):
            print(f"{row['task']} {row['answer']}: {row['ours']} ({row['ours_detail']}), {row['theirs']}")
    for kind in sorted({row["answer"] for row in rows}):
        cells = [counts[kind, a, b] for a, b in ((True, True), (False, False), (False, True), (True, False))]
        print("{}: both accept {}, both refuse {}, only theirs accepts {}, only ours {}".format(kind, *cells))
    honest = [row for row in rows if row["answer"] in HONEST]
    agreed = sum((row["ours"] in ACCEPTED) == (row["theirs"] in ACCEPTED) for row in honest)
    print(f"honest answers: the judges agree on {agreed} of {len(honest)}")


def main() -> None:
    """Prepare, run or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("prepare", "run", "report"))
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--batch", type=int, default=10, help="tasks built together")
    parser.add_argument("--at-once", type=int, default=6, help="answers that the evaluator runs at once")
    parser.add_argument("--budget-s", type=float, default=230.0)
    options = parser.parse_args()
    if options.step == "prepare":
        made = prepare(options.checkout)
        options.tasks.write_bytes(pickle.dumps(made))
        print(f"{len(made)} tasks, {sum(len(one.answers) for one in made)} answers")
    elif options.step == "run":
        run(options)
    else:
        report(options.out)


if __name__ == "__main__":
    main()
