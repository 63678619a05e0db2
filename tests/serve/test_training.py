"""A training run that asks a server for its rewards."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from serve.conftest import Server
from train.asked import COPY, WRONG, reply

from kcurate.client import Client
from kcurate.errors import InputError, RemoteError
from kcurate.reward import pair_tasks
from kcurate.reward.devices import JudgePlace
from kcurate.reward.feedback import feedback_on
from kcurate.reward.remote import RemotePool, _requests
from kcurate.reward.task import Task
from kcurate.train.config import resolve
from kcurate.train.run_folder import RunFolder
from kcurate.train.stage import Tasks, TrainConfig, judges, remote_pool

PLACE = JudgePlace("emulator", (0,), timed=False)


@pytest.fixture(scope="module")
def tasks(dataset: Path) -> tuple[Task, ...]:
    return pair_tasks.load(str(dataset), untimed=True)


@pytest.fixture(scope="module")
def kept(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is at the same address when it is started again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Server(dataset, tmp_path_factory.mktemp("work"), "--port", str(port))
    yield made
    made.kill()


def test_a_run_gets_its_rewards_in_order_from_the_server_that_it_names(
    kept: Server, tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    settings = resolve(sets=["reward.values.right=0.25"], options={"judge": {"url": kept.url}})
    config = TrainConfig(settings=settings, out=tmp_path)
    notes: list[str] = []
    with judges(config, RunFolder(tmp_path), PLACE, Tasks(tasks, tasks, ()), 0, notes.append) as pool:
        assert not pool.timed
        asked = [tasks[0], tasks[1], tasks[0], tasks[0]]
        found = asyncio.run(pool.score(asked, [reply(), "no kernel", COPY, WRONG]))
    assert [one.task_id for one in found] == [task.id for task in asked]
    assert [(one.outcome, one.reward) for one in found] == [
        ("correct", 0.25), ("unreadable", 0.0), ("copied", 0.0), ("mismatch", 0.1)
    ]  # fmt: skip
    assert found[0].components["reached"] == 0.25 and found[0].key and found[1].key == ""


@pytest.mark.slow
def test_a_server_that_goes_away_is_waited_for(kept: Server, tasks: tuple[Task, ...]) -> None:
    notes: list[str] = []
    away = threading.Event()

    def note(text: str) -> None:
        notes.append(text)
        away.set()

    pool = RemotePool(Client(kept.url, retry_s=120, note=note), "pairs", {})
    kept.kill()
    again = threading.Thread(target=lambda: away.wait(60) and kept.start())
    again.start()
    (one,) = asyncio.run(pool.score(tasks[:1], ["no kernel after the restart"]))
    again.join()
    assert one.outcome == "unreadable"
    assert "trying again in" in notes[0] and kept.url in notes[0]


def test_a_server_without_the_tasks_is_refused_before_training(kept: Server, tasks: tuple[Task, ...]) -> None:
    pool = RemotePool(kept.client, "pairs", {})
    pool.check(tasks)
    other = replace(tasks[0], id="test/other")
    slow = replace(tasks[1].template.slow, code=tasks[0].template.slow.code + "\n__device__ int more;")
    changed = replace(tasks[1], template=replace(tasks[1].template, slow=slow))
    for wrong in (other, changed):
        with pytest.raises(InputError, match=f"lacks 1 of 2 tasks, such as {wrong.id}"):
            pool.check((tasks[0], wrong))


def test_a_server_with_another_problem_or_plan_is_refused(kept: Server, tasks: tuple[Task, ...]) -> None:
    template = tasks[0].template
    assert template.problem is not None
    for changed in (
        replace(template, problem=replace(template.problem, scalars={})),
        replace(template, slow=replace(template.slow, plan=(*template.slow.plan, *template.slow.plan))),
    ):
        with pytest.raises(InputError, match="lacks 1 of 1 tasks"):
            RemotePool(kept.client, "pairs", {}).check((replace(tasks[0], template=changed),))


def test_the_next_turn_is_told_what_the_server_found(kept: Server, tasks: tuple[Task, ...]) -> None:
    pool = RemotePool(kept.client, "pairs", {})
    wrong, right = asyncio.run(pool.score([tasks[0]] * 2, [WRONG, reply()]))
    assert feedback_on(wrong).startswith("Its results are wrong: y:")
    assert feedback_on(right).startswith("Its results are right")


def test_requests_hold_what_a_server_takes() -> None:
    def sizes(tasks: list[str], each: int) -> list[int]:
        parts = list(_requests(tasks, [each] * len(tasks)))
        assert sorted(i for part in parts for i in part) == list(range(len(tasks)))
        return [len(part) for part in parts]

    assert sizes(["a", "b"] * 100, 10) == [200]
    assert sizes(["a"] * 200 + ["b"] * 100, 10) == [200, 100]
    assert sizes(["a"] * 600, 10) == [256, 256, 88]
    assert sizes(["a"] * 3 + ["b"] * 3, 3 << 20) == [2, 2, 2]
    assert sizes(["a"], 100 << 20) == [1]


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["reward.scheme=os:getcwd"], "no reward of your own"),
        (["curriculum.policy=sqd"], "permits all techniques"),
        (["tasks.source=kernelbench"], "judges pairs"),
        (["judge.token_file=/no/such/file"], "cannot read"),
        (["judge.url=ftp://x"], "not an http address"),
    ],
)
def test_what_a_server_cannot_do_is_one_line(sets: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        remote_pool(resolve(sets=["judge.url=http://127.0.0.1:9", *sets]), print)


def test_an_address_without_a_server_is_an_error_at_once() -> None:
    with pytest.raises(RemoteError, match="is kcurate serve running"):
        remote_pool(resolve(sets=["judge.url=http://127.0.0.1:9"]), print)
