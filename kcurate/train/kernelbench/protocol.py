"""KernelBench by its own protocol: an answer is a Python module with `ModelNew`, judged by its own evaluator.

The evaluator and the prompts are those of the user's checkout; nothing of them is here. Every answer is
built, and then evaluated, in a process of its own (`evaluator`): all builds first, many at once, then one
answer after another on the GPU, so that nothing else runs while it is timed. A result becomes an outcome of
ours, so that the same numbers are made of it; fast_p is KernelBench's, a ratio of means above p, without an
interval. Not covered: answers in device code under our judge (`tasks`).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kcurate.core import codec, own_files, progress, time_limits
from kcurate.errors import InputError, KcurateError
from kcurate.judge.workers.nursery import run_limited
from kcurate.records import Candidate, Origin, Outcome, Prompt, Side
from kcurate.train.evaluation.completions import Completion
from kcurate.train.evaluation.judging import short
from kcurate.train.kernelbench import tasks as known
from kcurate.train.kernelbench.evaluator import Built, Found, result
from kcurate.train.reward.answers import Refusal
from kcurate.train.reward.schemes import OURS, Earned, Scheme, terms_of
from kcurate.train.task import Task

_BLOCK = re.compile(r"```(?:python|py|cpp)?[ \t]*\n?(.*?)```", re.DOTALL)
# KernelBench's prompts have no system part of their own.
SYSTEM = "You are a helpful assistant"
# An outcome of ours, the ratio, and what was found.
Result = tuple[str, float | None, str]
T = TypeVar("T")


def checkout(place: str) -> Path:
    """The checkout that `--tasks kernelbench:PATH` names.

    Raises:
        InputError: there is none, or it has no evaluator.
    """
    tree = Path(place).absolute()
    if not place or not (tree / "src" / "kernelbench" / "eval.py").is_file():
        hint = "--tasks kernelbench:PATH, a checkout of KernelBench with src/kernelbench/eval.py"
        raise InputError("KernelBench's own protocol needs its evaluator", where="--protocol", hint=hint)
    return tree


def load(tree: Path, level: int) -> tuple[Task, ...]:
    """The modules of a level, each with KernelBench's own prompt.

    Raises:
        InputError: no modules there, or its prompts cannot be made.
    """
    modules = known.modules(tree, level, None)
    with _folder() as folder:
        asked = {"step": "prompts", "tree": str(tree), "modules": modules}
        said, found = _run(folder, asked, dict[str, str])
    if found is None:
        raise InputError(f"KernelBench's prompts: {_last(said)}", where=str(tree))
    return tuple(_task(name, code, found[name], level) for name, code in modules.items())


def _task(name: str, code: str, prompt: str, level: int) -> Task:
    plain = known.named(name)
    candidate = Candidate(
        id=f"kernelbench/level{level}/{name.strip('_')}",
        family=plain,
        domain="deep-learning",
        license=known.LICENSE,
        origin=Origin("model", suite="kernelbench", url=known.URL, made="fast"),
        techniques=(),
        description=f"KernelBench, level {level}, {name}: ModelNew, by its own protocol.",
        problem=None,
        slow=Side(code, (), language="torch"),
        fast=Side("", ()),
    )
    return Task(candidate.id, plain, Prompt(SYSTEM, "", prompt), candidate)


def code_of(reply: str) -> str | None:
    """The first fenced block of a reply, as KernelBench takes it."""
    found = _BLOCK.search(reply)
    return found[1].strip() if found and found[1].strip() else None


def judge(
    rows: Sequence[Completion],
    tasks: Sequence[Task],
    tree: Path,
    scheme: Scheme,
    *,
    gpu: int,
    jobs: int = 0,
    at_once: int = 1,
) -> list[Completion]:
    """The rows with what KernelBench's evaluator finds; equal answers to a task are evaluated once.

    `at_once`: how many are evaluated at once; above 1 the times mean nothing.
    """
    modules = {task.id: task.template.slow.code for task in tasks}
    codes = {(row.task, code): "" for row in rows if (code := code_of(row.reply)) is not None}
    found: dict[tuple[str, str], Result] = {}
    with _folder() as root:
        folders = {key: root / str(at) for at, key in enumerate(codes)}
        requests = {
            key: {"tree": str(tree), "module": modules[key[0]], "code": key[1], "backend": backend_of(key[1])}
            for key in folders
        }

        def build(key: tuple[str, str]) -> tuple[str, Built | None]:
            folders[key].mkdir()
            return _run(folders[key], {**requests[key], "step": "build"}, Built, gpu)

        keys = list(folders)
        with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as threads:
            built = list(progress.each(threads.map(build, keys), "building", total=len(keys)))

        def judged(key: tuple[str, str], said: str, made: Built | None) -> Result:
            refused = _refused(said, made)
            if refused is None:
                asked = {**requests[key], "step": "evaluate"}
                refused = _outcome(*_run(folders[key], asked, Found, gpu))
            shutil.rmtree(folders[key], ignore_errors=True)
            return refused

        with ThreadPoolExecutor(at_once) as threads:
            all_ = threads.map(judged, keys, *zip(*built, strict=True)) if built else iter(())
            found.update(zip(keys, progress.each(all_, "evaluating", total=len(keys)), strict=True))
    return _rewarded(rows, found, scheme)


def backend_of(code: str) -> str:
    """The language that KernelBench is told: Triton if it is imported, else CUDA."""
    return "triton" if re.search(r"^\s*(import|from)\s+triton\b", code, re.MULTILINE) else "cuda"


def _refused(said: str, made: Built | None) -> Result | None:
    """Why an answer is not evaluated; None if it is."""
    if made is None:
        return (Outcome.COMPILE_ERROR, None, _last(said) or "the build was stopped")
    if made.static:
        return (Outcome.STATIC_REJECT, None, made.static)
    return None if made.built else (Outcome.COMPILE_ERROR, None, made.why)


def _outcome(said: str, made: Found | None) -> Result:
    """An outcome of ours, the ratio, and the detail of what the evaluator found."""
    if made is None:
        return (Outcome.LAUNCH_ERROR, None, _last(said)) if said else (Outcome.TIMEOUT, None, "stopped")
    about = made.metadata
    if about is None:
        return (OURS, None, "KernelBench's evaluator gave no result")
    if not made.compiled:
        return (Outcome.COMPILE_ERROR, None, about.get("compilation_error", ""))
    if not made.correct:
        failed = about.get("runtime_error")
        return (Outcome.LAUNCH_ERROR if failed else Outcome.MISMATCH, None, failed or str(about))
    if not all(math.isfinite(one) and one > 0 for one in (made.reference_ms, made.ms)):
        return (OURS, None, about.get("error_during_performance", "not timed"))
    ratio = made.reference_ms / made.ms
    detail = "KernelBench flags it as an excessive speedup" if "excessive_speedup" in about else ""
    return (Outcome.CONFIRMED if ratio > 1 else Outcome.NOT_FASTER, ratio, detail)


def _rewarded(
    rows: Sequence[Completion], found: Mapping[tuple[str, str], Result], scheme: Scheme
) -> list[Completion]:
    made: list[Completion] = []
    for row in rows:
        code = code_of(row.reply)
        unread = (Refusal.UNREADABLE.value, None, "no fenced block")
        outcome, ratio, detail = unread if code is None else found[row.task, code]
        made.append(replace(row, outcome=str(outcome), speedup=ratio, detail=short(detail), judge_s=0.0))
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(made):
        groups.setdefault(row.task, []).append(at)
    for places in groups.values():
        earned = [Earned(made[at].outcome or "", made[at].speedup, task=made[at].task) for at in places]
        for at, terms in zip(places, terms_of(scheme, earned), strict=True):
            made[at] = replace(made[at], reward=sum(terms.values()))
    return made


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kcurate-kernelbench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _run(
    folder: Path, asked: Mapping[str, Any], kind: type[T], gpu: int | None = None
) -> tuple[str, T | None]:
    """What a process printed (nothing if it was stopped), and its result, if it wrote one of this kind.

    Its home is a folder inside `folder`. An answer may have written the result itself: it is read as somebody
    else's file.
    """
    home, request = folder / "home", folder / "request.json"
    home.mkdir(exist_ok=True)
    request.write_text(json.dumps(asked), encoding="utf-8")
    boot = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); " + (
        "from kcurate.train.kernelbench.evaluator import main; main()"
    )
    command = [sys.executable, "-c", boot, json.dumps(sys.path), str(request)]
    more = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
    done = run_limited(command, str(home), time_limits.KERNELBENCH_ANSWER_S, more)
    if done is None:
        return "", None
    found = home / result(asked["step"])
    try:
        return done.stdout, codec.from_data(
            kind, codec.parse(own_files.read(found), where=found.name), where=""
        )
    except KcurateError:
        return done.stdout or "the process died without a word", None


def _last(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1] if lines else ""
