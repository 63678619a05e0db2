"""KernelBench by its own protocol: an answer is a Python module with `ModelNew`, judged by its evaluator.

The evaluator and the prompts come from the user's checkout; kcurate contains no copy of them. Every answer is
built, and then evaluated, in a separate process (`kcurate.kernelbench.evaluator`): first all builds, many at
once, then one answer after another on the GPU, so that nothing else runs while it is timed. A result becomes
one of our outcomes, so that the same scores can be computed. fast_p is KernelBench's: a ratio of mean times
above p, without an interval. Not covered: answers in device code, for kcurate's own judge
(`kcurate.kernelbench.tasks`).
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
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.judging import short
from kcurate.judge.workers.nursery import run_limited
from kcurate.kernelbench import tasks as kernelbench
from kcurate.kernelbench.evaluator import Built, Evaluation, result
from kcurate.records import Outcome, Prompt, Side
from kcurate.reward.answers import Refusal
from kcurate.reward.schemes import OURS, Earned, Scheme, terms_of
from kcurate.reward.task import Task

_BLOCK = re.compile(r"```(?:python|py|cpp)?[ \t]*\n?(.*?)```", re.DOTALL)
# KernelBench's prompts have no system message.
SYSTEM = "You are a helpful assistant"
# One of our outcomes, the speedup, and a detail.
Result = tuple[str, float | None, str]
T = TypeVar("T")


def checkout(place: str) -> Path:
    """The checkout that `--tasks kernelbench:PATH` names.

    Raises:
        InputError: there is no such checkout, or it has no evaluator.
    """
    tree = Path(place).absolute()
    if not place or not (tree / "src" / "kernelbench" / "eval.py").is_file():
        hint = "--tasks kernelbench:PATH, a checkout of KernelBench with src/kernelbench/eval.py"
        raise InputError("KernelBench's own protocol needs its evaluator", where="--protocol", hint=hint)
    return tree


def load(tree: Path, level: int) -> tuple[Task, ...]:
    """The modules of a level, each with KernelBench's own prompt.

    Raises:
        InputError: no modules there, or KernelBench cannot make its prompts.
    """
    modules = kernelbench.modules(tree, level, None)
    with _folder() as folder:
        request = {"step": "prompts", "tree": str(tree), "modules": modules}
        printed, texts = _run(folder, request, dict[str, str])
    if texts is None:
        raise InputError(f"KernelBench's prompts: {_last(printed)}", where=str(tree))
    return tuple(_task(name, code, texts[name], level) for name, code in modules.items())


def _task(name: str, code: str, prompt: str, level: int) -> Task:
    slow = Side(code, (), language="torch")
    template = kernelbench.template_of(name, level, "ModelNew, by its own protocol", None, slow)
    return Task(template.id, template.family, Prompt(SYSTEM, "", prompt), template)


def code_of(reply: str) -> str | None:
    """The first fenced block of a reply, which is what KernelBench uses."""
    block = _BLOCK.search(reply)
    return block[1].strip() if block and block[1].strip() else None


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
    """The rows with the results of KernelBench's evaluator; equal answers to a task are evaluated once.

    `at_once`: how many answers are evaluated at the same time; above 1 the times are meaningless.
    """
    modules = {task.id: task.template.slow.code for task in tasks}
    codes = {(row.task, code): "" for row in rows if (code := code_of(row.reply)) is not None}
    results: dict[tuple[str, str], Result] = {}
    with _folder() as root:
        folders = {key: root / str(index) for index, key in enumerate(codes)}
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

        def judged(key: tuple[str, str], printed: str, built: Built | None) -> Result:
            outcome = _refused(printed, built)
            if outcome is None:
                request = {**requests[key], "step": "evaluate"}
                outcome = _outcome(*_run(folders[key], request, Evaluation, gpu))
            shutil.rmtree(folders[key], ignore_errors=True)
            return outcome

        with ThreadPoolExecutor(at_once) as threads:
            in_order = threads.map(judged, keys, *zip(*built, strict=True)) if built else iter(())
            results.update(zip(keys, progress.each(in_order, "evaluating", total=len(keys)), strict=True))
    return _rewarded(rows, results, scheme)


def backend_of(code: str) -> str:
    """KernelBench's name for the language of an answer: Triton if it is imported, else CUDA."""
    return "triton" if re.search(r"^\s*(import|from)\s+triton\b", code, re.MULTILINE) else "cuda"


def _refused(printed: str, built: Built | None) -> Result | None:
    """The result of an answer that cannot be evaluated; None if it can."""
    if built is None:
        return (Outcome.COMPILE_ERROR, None, _last(printed) or "the build was stopped")
    if built.static:
        return (Outcome.STATIC_REJECT, None, built.static)
    return None if built.built else (Outcome.COMPILE_ERROR, None, built.why)


def _outcome(printed: str, evaluation: Evaluation | None) -> Result:
    """The evaluator's findings as one of our outcomes, the speedup, and a detail."""
    if evaluation is None:
        return (Outcome.LAUNCH_ERROR, None, _last(printed)) if printed else (Outcome.TIMEOUT, None, "stopped")
    details = evaluation.metadata
    if details is None:
        return (OURS, None, "KernelBench's evaluator gave no result")
    if not evaluation.compiled:
        return (Outcome.COMPILE_ERROR, None, details.get("compilation_error", ""))
    if not evaluation.correct:
        failed = details.get("runtime_error")
        return (Outcome.LAUNCH_ERROR if failed else Outcome.MISMATCH, None, failed or str(details))
    if not all(math.isfinite(ms) and ms > 0 for ms in (evaluation.reference_ms, evaluation.ms)):
        return (OURS, None, details.get("error_during_performance", "not timed"))
    ratio = evaluation.reference_ms / evaluation.ms
    detail = "KernelBench flags it as an excessive speedup" if "excessive_speedup" in details else ""
    return (Outcome.CONFIRMED if ratio > 1 else Outcome.NOT_FASTER, ratio, detail)


def _rewarded(
    rows: Sequence[Completion], results: Mapping[tuple[str, str], Result], scheme: Scheme
) -> list[Completion]:
    scored: list[Completion] = []
    for row in rows:
        code = code_of(row.reply)
        unread = (Refusal.UNREADABLE.value, None, "no fenced block")
        outcome, ratio, detail = unread if code is None else results[row.task, code]
        scored.append(replace(row, outcome=str(outcome), speedup=ratio, detail=short(detail), judge_s=0.0))
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(scored):
        groups.setdefault(row.task, []).append(i)
    for members in groups.values():
        earned = [Earned(scored[i].outcome or "", scored[i].speedup, task=scored[i].task) for i in members]
        for i, terms in zip(members, terms_of(scheme, earned), strict=True):
            scored[i] = replace(scored[i], reward=sum(terms.values()))
    return scored


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kcurate-kernelbench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _run(
    folder: Path, request: Mapping[str, Any], cls: type[T], gpu: int | None = None
) -> tuple[str, T | None]:
    """The output of a process (empty if it was stopped), and its result, if it wrote one of this class.

    Its home directory is inside `folder`. The answer may have forged the result, which is therefore read as
    an untrusted file.
    """
    home, request_file = folder / "home", folder / "request.json"
    home.mkdir(exist_ok=True)
    request_file.write_text(json.dumps(request), encoding="utf-8")
    boot = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); " + (
        "from kcurate.kernelbench.evaluator import main; main()"
    )
    command = [sys.executable, "-c", boot, json.dumps(sys.path), str(request_file)]
    variables = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
    done = run_limited(command, str(home), time_limits.KERNELBENCH_ANSWER_S, variables)
    if done is None:
        return "", None
    answer = home / result(request["step"])
    try:
        data = codec.parse(own_files.read(answer), where=answer.name)
        return done.stdout, codec.from_data(cls, data, where="")
    except KcurateError:
        return done.stdout or "the process died without an error message", None


def _last(printed: str) -> str:
    lines = printed.strip().splitlines()
    return lines[-1] if lines else ""
