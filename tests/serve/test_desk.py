"""The desk by itself, with a judge of our own: jobs when the disk, the caller or a task fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from small import SCALE
from train.asked import RuleJudge, reply, verdict

from kcurate.client import Answer, Given, Job, OwnProblem, Request, job_of
from kcurate.errors import InputError
from kcurate.judge.referees.local import JudgeExecutor
from kcurate.records import Candidate, Environment, Outcome, Verdict
from kcurate.reward import schemes
from kcurate.reward.pool import RewardPool
from kcurate.serve import stage as serving
from kcurate.serve.catalog import Catalog, own_task
from kcurate.serve.job_log import JobLog

TASK = "test/scale"


def right(candidate: Candidate, _: int) -> Verdict:
    return verdict(candidate, Outcome.CORRECT)


def with_desk(
    dataset: Path, work: Path, use: Callable[[Any], Any], executor: JudgeExecutor | None = None
) -> Any:
    """What `use` returns of a desk over `dataset`, whose jobs are in `work`."""
    from kcurate.serve.desk import Desk

    pool = RewardPool(schemes.make("pairs"), executor=executor or RuleJudge(right))
    log = JobLog(work / "jobs.jsonl")

    async def run() -> Any:
        desk = Desk(pool, Catalog((str(dataset),), Environment("emulator", "CPU")), log, 100)
        await desk.resume()
        try:
            return await use(desk)
        finally:
            await desk.close()

    try:
        found = asyncio.run(run())
        return job_of(asdict(found)) if isinstance(found, Job) else found
    finally:
        pool.close()


def here() -> asyncio.Future[None]:
    """A caller who stays."""
    return asyncio.get_running_loop().create_future()


def gone() -> asyncio.Future[None]:
    """A caller who has left."""
    left = here()
    left.set_result(None)
    return left


def request(text: str = "no kernel", **more: Any) -> Request:
    return Request([Answer(TASK, text)], **more)


def test_a_job_whose_end_cannot_be_written_is_not_lost(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was acknowledged: its caller finds it, and the next server ends it."""

    def full(*_: Any) -> None:
        raise InputError("cannot write: No space left on device")

    monkeypatch.setattr(JobLog, "end", full)

    async def use(desk: Any) -> Job:
        taken = await desk.judge(request(wait=False), here(), 60)
        while desk.jobs:
            await asyncio.sleep(0.01)
        found = await desk.look(taken.id, here(), 60)
        assert found is not None and found == await desk.judge(request(), here(), 60)
        return found  # type: ignore[no-any-return]

    found = with_desk(dataset, tmp_path, use)
    assert (found.state, found.results[0].outcome) == ("done", "unreadable")
    monkeypatch.undo()
    again = with_desk(dataset, tmp_path, lambda desk: desk.look(found.id, here(), 60))
    assert again == found


def test_a_caller_that_leaves_is_no_error(dataset: Path, tmp_path: Path) -> None:
    class Busy(RuleJudge):
        def submit(self, candidate: Candidate) -> Any:
            from concurrent.futures import Future

            return Future[Verdict]()

    async def use(desk: Any) -> Job:
        return await desk.judge(request(reply()), gone(), 60)  # type: ignore[no-any-return]

    assert with_desk(dataset, tmp_path, use, Busy(right)).state == "waiting"


def test_a_task_that_has_changed_is_another_job(dataset: Path, tmp_path: Path) -> None:
    """A server that is started again on other pairs does not answer with what it found on the old ones."""
    from serve.conftest import write_pairs

    other = write_pairs(tmp_path / "pairs", SCALE.replace("int i =", "int unused = 0; int i ="))
    base = json.loads((other / "scale" / "pair.json").read_bytes())
    base["problem"]["scalars"]["a"]["value"] = 2.5
    (other / "scale" / "pair.json").write_text(json.dumps(base))
    rejudged(other / "scale")

    async def ask(desk: Any) -> Job:
        return await desk.judge(request(reply()), here(), 60)  # type: ignore[no-any-return]

    first = with_desk(dataset, tmp_path / "work", ask)
    assert with_desk(dataset, tmp_path / "work", ask) == first
    assert with_desk(other, tmp_path / "work", ask).id != first.id
    log = JobLog(tmp_path / "left" / "jobs.jsonl")
    asked = {key: value for key, value in asdict(request(reply())).items() if key != "wait"}
    log.take("old", asked, "hash of other tasks")
    log.take("new", asked)
    log.close()
    found = [
        with_desk(dataset, tmp_path / "left", lambda desk, name=name: desk.look(name, here(), 60))
        for name in ("old", "new")
    ]
    assert [one.state for one in found] == ["failed", "done"]
    assert "has changed since the request was taken" in found[0].error


def rejudged(folder: Path) -> None:
    """A verdict on the pair as it is now."""
    from kcurate.core import store
    from kcurate.verdicts.keys import verdict_key

    made = store.read_candidate(folder)
    emulated = Environment("emulator", "CPU")
    store.write_verdict(
        folder, Verdict(made.id, verdict_key(made), Outcome.CORRECT, emulated, checks=("plan",))
    )


@pytest.mark.parametrize(
    "line",
    [
        {"id": "x", "request": 5},
        {"id": "x", "request": {}, "number": 1},
        {"id": "x", "request": {"answers": [{"task": 7}], "scheme": 9}, "number": 1},
        {"id": "x", "request": {"answers": [{"reply": ""}], "problem": {"problem": {}}}, "number": 1},
        {"id": ["x"], "request": {}},
        {"id": "x", "job": 7},
        {"id": "x", "left": 3},
        {"id": "x", "job": {}},
        [1],
    ],
)
def test_a_line_that_is_no_job_does_not_stop_the_server(line: Any, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_text(json.dumps(line) + "\n" + "[" * 100_000 + "\n\xff\n")

    async def use(desk: Any) -> tuple[Job | None, Job]:
        return await desk.look("x", here(), 60), await desk.judge(request(), here(), 60)

    found, judged = with_desk(dataset, tmp_path, use)
    assert judged.state == "done"
    assert found is None or (found.state, found.error) == ("failed", "not a request (send it again)")


def test_a_problem_of_very_many_buffers_is_refused(dataset: Path) -> None:
    from small import SCALE_STRIDED, problem
    from train.asked import PLAN

    from kcurate.core import codec

    data = codec.to_data(problem(64))
    data["buffers"] |= {f"z{i}": data["buffers"]["x"] for i in range(100)}
    with pytest.raises(InputError, match="more than 64 buffers"):
        own_task(OwnProblem(data, Given(SCALE_STRIDED, PLAN)), "emulator")


def answered(app: serving.App, messages: list[Any], **headers: str) -> tuple[int, str, int]:
    """Status and body of a request through the guard, and how many of its messages were not read."""
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else await here()

    async def send(message: Any) -> None:
        sent.append(message)

    given = [(key.encode(), value.encode()) for key, value in ({"host": "localhost"} | headers).items()]
    asyncio.run(serving.Guard(app, None, 1000)({"type": "http", "headers": given}, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])["detail"], len(messages)


async def never(*_: Any) -> None:
    raise AssertionError("it was refused")


def test_a_refused_body_is_read_so_that_the_caller_sees_why() -> None:
    body = [{"body": b"x" * 900, "more_body": True} for _ in range(5)] + [{"body": b""}]
    assert answered(never, list(body), **{"content-length": "4500"})[::2] == (413, 0)
    assert answered(never, list(body))[::2] == (413, 0)
    assert answered(never, list(body), host="evil.example")[::2] == (400, 0)
    asks_first = {"content-length": "4500", "expect": "100-continue"}
    assert answered(never, list(body), **asks_first)[::2] == (413, 6)


def test_a_refused_body_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "DRAIN_S", 0.05)
    monkeypatch.setattr(serving, "DRAIN_BYTES", 3000)
    body = [{"body": b"x" * 900, "more_body": True} for _ in range(9)]
    assert answered(never, list(body), **{"content-length": "99999"})[::2] == (413, 5)
    assert answered(never, body[:1], **{"content-length": "99999"})[::2] == (413, 0)


def test_a_server_that_stops_tells_waiting_callers_to_ask_again() -> None:
    async def stopped(*_: Any) -> None:
        raise asyncio.CancelledError

    found = answered(stopped, [{"body": b""}])
    assert found[:2] == (503, "the server is stopping; send the request again")
