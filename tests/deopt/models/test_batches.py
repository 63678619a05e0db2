"""Message Batches with the real client against a server on loopback that keeps them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server, workbench
from deopt.models.server import serving
from deopt.models.workbench import NO_LDG, NO_UNROLL, ScriptedJudge, seams

from kcurate.core import store
from kcurate.deopt.models.run import run
from kcurate.errors import RemoteError
from kcurate.models.prices import BudgetSpentError
from kcurate.records import BatchJob, ReplyStatus, Transcript


def succeeded(body: dict[str, Any]) -> dict[str, Any]:
    """The right answer to a request."""
    unrolled = "loop-unrolling" in body["messages"][0]["content"][1]["text"].splitlines()[0]
    content = [
        {"type": "text", "text": "Here."},
        {
            "type": "tool_use",
            "id": "t",
            "name": "submit_kernel",
            "input": {"code": NO_UNROLL if unrolled else NO_LDG},
        },
    ]
    message = {
        "id": "msg", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 50},
    }  # fmt: skip
    return {"type": "succeeded", "message": message}


def errored(kind: str = "api_error") -> dict[str, Any]:
    return {
        "type": "errored",
        "error": {"type": "error", "error": {"type": kind, "message": f"said: {kind}"}},
    }


@dataclass
class BatchServer:
    """Batches in memory; `result` makes each one's results of (batch number, index, request)."""

    result: Any = None
    polls_until_done: int = 1
    batches: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    lose_answers: int = 0

    def __call__(self, handler: server.Handler, body: dict[str, Any]) -> None:
        path = handler.path.partition("?")[0]
        if handler.command == "POST":
            batch_id = f"batch_{len(self.batches)}"
            self.batches[batch_id] = body["requests"]
            if self.lose_answers > 0:
                self.lose_answers -= 1
                handler.reset()
                return
            self._send(handler, self._state(batch_id, handler))
        elif path == "/v1/messages/batches":
            data = [self._state(batch_id, handler) for batch_id in reversed(self.batches)]
            self._send(handler, {"data": data, "has_more": False, "first_id": None, "last_id": None})
        elif path.endswith("/results"):
            batch_id = path.split("/")[-2]
            number = int(batch_id.removeprefix("batch_"))
            lines = [
                {"custom_id": one["custom_id"], "result": self._result(number, index, one["params"])}
                for index, one in enumerate(self.batches[batch_id])
            ]
            text = "".join(json.dumps(line) + "\n" for line in reversed(lines))
            handler.send(200, text.encode(), "application/binary")
        else:
            batch_id = path.split("/")[-1]
            self.polls[batch_id] = self.polls.get(batch_id, 0) + 1
            self._send(handler, self._state(batch_id, handler))

    def _result(self, number: int, index: int, body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.result(number, index, body) if self.result else succeeded(body)
        return found

    def _send(self, handler: server.Handler, data: dict[str, Any]) -> None:
        handler.send(200, json.dumps(data).encode())

    def _state(self, batch_id: str, handler: server.Handler) -> dict[str, Any]:
        done = self.polls.get(batch_id, 0) > self.polls_until_done
        count = len(self.batches[batch_id])
        host = handler.headers["host"]
        now = datetime.now(UTC).isoformat()
        return {
            "id": batch_id, "type": "message_batch", "processing_status": "ended" if done else "in_progress",
            "created_at": now, "expires_at": now, "ended_at": None, "archived_at": None,
            "cancel_initiated_at": None,
            "request_counts": {"processing": 0 if done else count, "succeeded": count if done else 0,
                               "errored": 0, "canceled": 0, "expired": 0},
            "results_url": f"http://{host}/v1/messages/batches/{batch_id}/results" if done else None,
        }  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")


def go(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    workbench.start(folder)
    config = workbench.config(
        folder, "claude-opus-4-8", batch=True, **({"techniques": workbench.BOTH} | options)
    )
    return dict(run(config, seams=seams(ScriptedJudge())).items)


def transcripts(folder: Path) -> list[Transcript]:
    (path,) = (folder / "work" / "transcripts").glob("*.jsonl")
    return list(store.read_jsonl(path, Transcript))


def jobs(folder: Path) -> list[BatchJob]:
    (path,) = (folder / "work" / "batches").glob("*.jsonl")
    return list(store.read_jsonl(path, BatchJob))


def test_a_batch_answers_all_searches_at_half_the_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = BatchServer()
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch)
    assert (items["searches"], items["requests"]) == ({"accepted": 2}, {"batched": 2})
    assert [len(requests) for requests in batches.batches.values()] == [2]
    for line in transcripts(tmp_path):
        assert line.exchange.batch == "batch_0"
        assert line.exchange.cost_usd == pytest.approx((100 * 5 + 50 * 25) / 1e6 / 2)
    assert [(job.id, job.collected, len(job.requests)) for job in jobs(tmp_path)] == [
        (None, False, 2),
        ("batch_0", False, 0),
        ("batch_0", True, 0),
    ]


def test_the_failed_half_of_a_batch_goes_into_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(number: int, index: int, body: dict[str, Any]) -> dict[str, Any]:
        if number == 0 and index == 0:
            return errored("overloaded_error")
        return succeeded(body)

    batches = BatchServer(half)
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch)
    assert items["searches"] == {"accepted": 2}
    assert [len(requests) for requests in batches.batches.values()] == [2, 1]


@pytest.mark.parametrize("result", [{"type": "expired"}, {"type": "canceled"}, errored()])
def test_requests_that_never_get_an_answer_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]
) -> None:
    batches = BatchServer(lambda number, index, body: result)
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch)
    assert items["attempts"] == {"rejected": 2}
    assert len(batches.batches) == 3


def test_a_rejected_request_of_a_batch_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = BatchServer(
        lambda number, index, body: errored("invalid_request_error") if index == 0 else succeeded(body)
    )
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch)
    assert items["attempts"] == {"rejected": 1, "confirmed": 1}
    assert len(batches.batches) == 1
    assert {line.exchange.status for line in transcripts(tmp_path)} == {
        ReplyStatus.REJECTED,
        ReplyStatus.ANSWERED,
    }


def test_a_batch_is_collected_by_a_later_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = BatchServer()

    def dies_when_asked_how_it_goes(handler: server.Handler, body: dict[str, Any]) -> None:
        if handler.command == "GET":
            handler.send(401, b"{}")  # as good an end of the first run as any
        else:
            batches(handler, body)

    with serving(dies_when_asked_how_it_goes) as (url, _), pytest.raises(RemoteError):
        go(tmp_path, url, monkeypatch)
    with serving(batches) as (url, script):
        items = go(tmp_path, url, monkeypatch)
    assert items["searches"] == {"accepted": 2}
    assert len(batches.batches) == 1
    assert not any(body for body in script.asked)


def test_a_batch_whose_id_was_lost_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = BatchServer(lose_answers=1)
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch)
    assert items["searches"] == {"accepted": 2}
    assert len(batches.batches) == 1


def test_a_batch_whose_id_was_lost_with_the_process_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = BatchServer(lose_answers=1)

    def ends_after_handing_in(handler: server.Handler, body: dict[str, Any]) -> None:
        if handler.command == "GET":
            handler.send(401, b"{}")
        else:
            batches(handler, body)

    with serving(ends_after_handing_in) as (url, _), pytest.raises(RemoteError):
        go(tmp_path, url, monkeypatch)
    assert [job.id for job in jobs(tmp_path)] == [None]
    with serving(batches) as (url, script):
        items = go(tmp_path, url, monkeypatch)
    assert items["searches"] == {"accepted": 2}
    assert len(batches.batches) == 1
    assert not any(body for body in script.asked)


def test_an_intent_that_never_became_a_batch_is_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(server.status(401)) as (url, _), pytest.raises(RemoteError):
        go(tmp_path, url, monkeypatch)
    batches = BatchServer()
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch)
    assert items["searches"] == {"accepted": 2}
    assert len(batches.batches) == 1


def test_a_batch_is_no_larger_than_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = BatchServer()
    with serving(batches) as (url, _):
        items = go(tmp_path, url, monkeypatch, max_usd=0.14)
        assert items["searches"] == {"accepted": 2}
        assert [len(requests) for requests in batches.batches.values()] == [1, 1]
        with pytest.raises(BudgetSpentError):
            go(tmp_path / "other", url, monkeypatch, max_usd=0.05)
    assert len(batches.batches) == 2
