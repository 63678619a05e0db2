"""The tasks that a server offers, and the task of a problem that a caller brings.

No task shows its answer. A caller's problem passes the schema and the problem check here; whether its given
side proves anything is for the judge (`desk`). It is never written as a pair. Not covered: which pairs become
tasks (`kcurate.train.pair_tasks`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kcurate import client, prompts
from kcurate.core import codec, store
from kcurate.draft.checking import LEAST_SETTINGS, different
from kcurate.draft.sizes import MAX_BENCH_ELEMENTS, MAX_TEST_ELEMENTS
from kcurate.errors import InputError, ProblemError
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.problem.check import check
from kcurate.problem.lessons import gpu_named
from kcurate.problem.outputs import elements
from kcurate.prompts import Answer
from kcurate.records import Candidate, Environment, Origin, Problem, Side
from kcurate.train import pair_tasks
from kcurate.train.task import Task

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
                named = gpu_named(self._environment.device, self._environment.compiler) or None
                untimed = self._environment.backend == "emulator"
                found = pair_tasks.load(*self._sources, brief=brief, untimed=untimed, gpu=named)
                self._loaded[brief] = {one.id: one for one in found if _askable(one)}
            return self._loaded[brief]

    def select(
        self,
        wanted: Mapping[str, str | None],
        split: str | None,
        held_out: float,
        seed: int,
        *,
        brief: bool,
    ) -> list[Task]:
        """The tasks whose id, family and domain are those `wanted` (None: any), in a split if one is named.

        Raises:
            InputError: no such split.
        """
        tasks = list(self.tasks(brief=brief).values())
        if split is not None:
            parts = dict(zip(("train", "held_out"), pair_tasks.split(tasks, held_out, seed), strict=True))
            if split not in parts:
                raise InputError(f"no split {split!r}", hint=f"one of {', '.join(parts)}")
            tasks = list(parts[split])
        return [
            one for one in tasks if all(value in (None, _facts(one)[key]) for key, value in wanted.items())
        ]


def _askable(task: Task) -> bool:
    """Whether any faster answer is right, and the given side is not code that would have to be trusted."""
    return task.technique is None and task.template.slow.language == "cuda"


def _facts(task: Task) -> dict[str, str]:
    return {"id": task.id, "family": task.family, "domain": task.template.domain}


def shown_task(task: Task) -> client.Task:
    """A task without its answer."""
    given, problem = task.template.slow, task.template.problem
    assert problem is not None, "every task has one"
    launch = shown.launch_data(given)
    return client.Task(
        **_facts(task),
        language=given.language,
        prompt=prompts.chat(task.prompt),
        problem=codec.to_data(problem),
        given=client.Given(shown.shown_code(given.code), launch["plan"], launch.get("buffers", {})),
        local_edit=task.local_edit,
    )


def own_task(own: client.OwnProblem, backend: str) -> Task:
    """The task of a caller's problem: checked as a record, at every size, and for its size.

    Raises:
        InputError: it cannot be judged; the message says where it is wrong.
    """
    data = {"problem": dict(own.problem), "given": asdict(own.given)}
    name = f"caller/{store.content_id('caller', codec.canonical_json(data))}"
    store.check_schema("pair", _pair_data(name, data), where="problem")
    problem = codec.from_data(Problem, data["problem"], where="problem.problem")
    blank = Side(own.given.code, ())
    given = side_of(Answer(own.given.code, own.given.plan, own.given.buffers or None), blank, problem)
    if isinstance(given, str):
        raise InputError(given, where="problem.given")
    origin = Origin("model", made="fast")
    template = Candidate(name, "caller", "caller", None, origin, (), "", problem, given, given)
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
    """The rules for drafts: two different test settings, and no more elements than are tried at once."""
    tests = problem.sizes.test
    if len(problem.sizes.all) > MOST_SETTINGS:
        raise InputError(f"more than {MOST_SETTINGS} size settings", where="problem.sizes")
    if len(problem.buffers) > MOST_BUFFERS:
        raise InputError(f"more than {MOST_BUFFERS} buffers", where="problem.buffers")
    if different(tests) < LEAST_SETTINGS:
        what = f"fewer than {LEAST_SETTINGS} different size settings"
        raise InputError(what, where="problem.sizes.test")
    most = MAX_TEST_ELEMENTS if backend == "emulator" else MAX_BENCH_ELEMENTS
    for settings, limit in ((tests, most), (problem.sizes.all, MAX_BENCH_ELEMENTS)):
        for sizes in settings:
            for buffer_name, buffer in problem.buffers.items():
                if (count := elements(buffer, sizes)) > limit:
                    what = f"{count} elements of {buffer_name}, more than {limit}"
                    raise ProblemError(what, where="problem.sizes")
