"""The tasks that a server offers, and the tasks made from problems that callers send.

No task shows its answer. A caller's problem is checked against the schema and by the problem check; judging
its given side is left to the judge (`desk`). It is never written as a pair. Not covered: which pairs become
tasks (`kcurate.reward.pair_tasks`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kcurate import client, prompts
from kcurate.core import codec, store
from kcurate.draft.size_settings import MAX_BENCH_ELEMENTS, MAX_TEST_ELEMENTS
from kcurate.draft.trying.completed_files import LEAST_SETTINGS, count_different
from kcurate.errors import InputError, ProblemError
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.problem.check import check
from kcurate.problem.lessons import gpu_named
from kcurate.problem.outputs import elements
from kcurate.prompts import Answer
from kcurate.records import Candidate, Environment, Origin, Problem, Side
from kcurate.reward import pair_tasks, splits
from kcurate.reward.task import Task

MOST_SETTINGS = 16
MOST_BUFFERS = 64


class Catalog:
    """The tasks of `sources` (as `pair_tasks.load` takes them) that a model may be asked."""

    def __init__(self, sources: Sequence[str], environment: Environment) -> None:
        self._sources = sources
        self._environment = environment
        self._loaded: dict[bool, dict[str, Task]] = {}
        self._lock = threading.Lock()

    def tasks(self, *, brief: bool = False) -> Mapping[str, Task]:
        """The tasks by id; `brief`: with the short rules.

        Raises:
            InputError: there are none.
        """
        with self._lock:
            if brief not in self._loaded:
                gpu = gpu_named(self._environment.device, self._environment.compiler) or None
                untimed = self._environment.backend == "emulator"
                loaded = pair_tasks.load(*self._sources, brief=brief, untimed=untimed, gpu=gpu)
                self._loaded[brief] = {task.id: task for task in loaded if _askable(task)}
            return self._loaded[brief]

    def select(
        self, filters: Mapping[str, str | None], split: str | None, held_out: float, seed: int, *, brief: bool
    ) -> list[Task]:
        """The tasks with this id, family and domain (None: any), in a split if one is named.

        Raises:
            InputError: no such split.
        """
        tasks = list(self.tasks(brief=brief).values())
        if split is not None:
            parts = dict(zip(("train", "held_out"), splits.split(tasks, held_out, seed), strict=True))
            if split not in parts:
                raise InputError(f"no split {split!r}", hint=f"one of {', '.join(parts)}")
            tasks = list(parts[split])
        return [
            task
            for task in tasks
            if all(value in (None, _facts(task)[key]) for key, value in filters.items())
        ]


def _askable(task: Task) -> bool:
    """Whether any faster answer solves it, and its given side needs no trust (as PyTorch code would)."""
    return task.technique is None and task.template.slow.language == "cuda"


def _facts(task: Task) -> dict[str, str]:
    return {"id": task.id, "family": task.family, "domain": task.template.domain}


def shown_task(task: Task) -> client.Task:
    """A task without its answer."""
    slow, problem = task.template.slow, task.template.problem
    assert problem is not None, "every task has one"
    launch = shown.launch_data(slow)
    return client.Task(
        **_facts(task),
        language=slow.language,
        prompt=prompts.chat(task.prompt),
        problem=codec.to_data(problem),
        given=client.Given(shown.shown_code(slow.code), launch["plan"], launch.get("buffers", {})),
        local_edit=task.local_edit,
    )


def own_task(request: client.OwnProblem, backend: str) -> Task:
    """The task of a caller's problem, checked against the schema, at every size, and for its memory.

    Raises:
        InputError: it cannot be judged; the message says where the fault is.
    """
    data = {"problem": dict(request.problem), "given": asdict(request.given)}
    name = f"caller/{store.content_id('caller', codec.canonical_json(data))}"
    store.check_schema("pair", _pair_data(name, data), where="problem")
    problem = codec.from_data(Problem, data["problem"], where="problem.problem")
    blank = Side(request.given.code, ())
    slow = side_of(
        Answer(request.given.code, request.given.plan, request.given.buffers or None), blank, problem
    )
    if isinstance(slow, str):
        raise InputError(slow, where="problem.given")
    origin = Origin("model", made="fast")
    template = Candidate(name, "caller", "caller", None, origin, (), "", problem, slow, slow)
    _check_sizes(problem, backend)
    if issues := check(template):
        raise InputError(issues[0].what, where=issues[0].where.replace("slow", "given"))
    return Task(name, "caller", shown.request(template), template)


def _pair_data(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's problem in the form of `pair.json`, for its schema."""
    side = {key: value for key, value in data["given"].items() if key != "code"}
    return {
        "schema": store.PAIR_SCHEMA,
        "id": name,
        **dict.fromkeys(("family", "domain", "description"), ""),
        "license": None,
        "origin": {"kind": "model", "made": "fast"},
        "techniques": [],
        "problem": data["problem"],
        "slow": {"file": "slow.cu", **side},
        "fast": {"file": "fast.cu", **side},
    }


def _check_sizes(problem: Problem, backend: str) -> None:
    """The same limits as for drafts: at least two different test settings, and not too many elements."""
    tests = problem.sizes.test
    if len(problem.sizes.all) > MOST_SETTINGS:
        raise InputError(f"more than {MOST_SETTINGS} size settings", where="problem.sizes")
    if len(problem.buffers) > MOST_BUFFERS:
        raise InputError(f"more than {MOST_BUFFERS} buffers", where="problem.buffers")
    if count_different(tests) < LEAST_SETTINGS:
        why = f"fewer than {LEAST_SETTINGS} different size settings"
        raise InputError(why, where="problem.sizes.test")
    most = MAX_TEST_ELEMENTS if backend == "emulator" else MAX_BENCH_ELEMENTS
    for settings, limit in ((tests, most), (problem.sizes.all, MAX_BENCH_ELEMENTS)):
        for sizes in settings:
            for buffer_name, buffer in problem.buffers.items():
                if (count := elements(buffer, sizes)) > limit:
                    why = f"{count} elements of {buffer_name}, more than {limit}"
                    raise ProblemError(why, where="problem.sizes")
