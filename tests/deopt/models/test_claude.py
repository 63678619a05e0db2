"""The Messages API, spoken by the real client to a server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server
from deopt.models.server import serving

from kcurate.core import store
from kcurate.errors import MissingDependencyError, RemoteError
from kcurate.models.asking import Asking
from kcurate.models.claude import ClaudeClient
from kcurate.models.client import Patience
from kcurate.models.prices import Budget, BudgetSpentError, Price, find_price
from kcurate.models.transcripts import Transcripts
from kcurate.records import Prompt, ReplyStatus, Transcript

PROMPT = Prompt("rules", "kernel", "task")
ANSWER = {"code": "__global__ void k() {}"}
QUICK = Patience(tries=4, unreachable_tries=2, first_s=0.01, most_s=0.02)
MODEL = "claude-sonnet-4-6"
TOOL = {"name": "submit_kernel", "description": "d", "input_schema": {"type": "object"}}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[ClaudeClient] = []

    def make(
        url: str,
        model: str = MODEL,
        limit: float | None = None,
        timeout_s: float = 30.0,
        max_tokens: int = 1000,
        **options: str,
    ) -> Asking:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        made.append(ClaudeClient(model, timeout_s=timeout_s))
        return Asking(
            made[-1],
            Transcripts(tmp_path / "t.jsonl", model),
            price=find_price(model),
            budget=Budget(limit),
            max_tokens=max_tokens,
            patience=QUICK,
            options=options,
        )

    yield make
    for client in made:
        client.close()


def answer(asking: Asking, sample: int = 1) -> Any:
    return asking.answer(asking.request(PROMPT, sample, (TOOL,)))


def test_answer_is_the_tools_input_with_its_tokens_and_price(ask: Any) -> None:
    usage = {"cache_creation_input_tokens": 40, "cache_read_input_tokens": 30}
    with serving(server.message(tool=ANSWER, text="Well.", usage=usage)) as (url, script):
        got = answer(ask(url))
    assert (got.status, got.form, json.loads(got.reply)) == (ReplyStatus.ANSWERED, "tool", ANSWER)
    assert (got.usage.input_tokens, got.usage.output_tokens) == (100, 50)
    price = find_price(MODEL)
    assert price is not None
    expected = (100 * 3 + 50 * 15 + 40 * 3.75 + 30 * 0.3) / 1e6
    assert got.cost_usd == pytest.approx(expected)
    (asked,) = script.asked
    assert asked["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert asked["tools"][0]["name"] == "submit_kernel"
    assert asked["system"][0]["cache_control"] == {"type": "ephemeral"}
    context, task = asked["messages"][0]["content"]
    assert context["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in task


@pytest.mark.parametrize(
    ("model", "max_tokens", "thinking"),
    [
        ("claude-opus-5-5", 1000, {"type": "adaptive"}),
        ("claude-opus-4-6", 1000, {"type": "adaptive"}),
        ("claude-that-is-new", 1000, {"type": "adaptive"}),
        ("claude-haiku-4-5", 32_000, {"type": "enabled", "budget_tokens": 16_000}),
        ("claude-haiku-4-5", 1000, None),  # no room for it
    ],
)
def test_every_model_may_think_and_no_tool_is_forced(
    ask: Any, model: str, max_tokens: int, thinking: dict[str, Any] | None
) -> None:
    with serving(server.message(text="```cuda\n__global__ void k() {}\n```", stop="end_turn")) as (
        url,
        script,
    ):
        got = answer(ask(url, model, max_tokens=max_tokens))
    (asked,) = script.asked
    assert (asked.get("thinking"), asked["tool_choice"]["type"]) == (thinking, "auto")
    assert "output_config" not in asked
    assert got.form == "text"


def test_effort_is_passed_on_and_asks_anew(ask: Any) -> None:
    with serving(server.message(tool=ANSWER)) as (url, script):
        answer(ask(url))
        answer(ask(url, effort="high"))
    assert [body.get("output_config") for body in script.asked] == [None, {"effort": "high"}]


def test_the_blocks_of_a_message_are_kept_with_the_signature_of_its_thoughts(ask: Any) -> None:
    heard: list[str] = []
    with serving(server.message(thinking="Hm.", text="Well.", tool=ANSWER)) as (url, _):
        asking = ask(url)
        asking.heard = heard.append
        got = answer(asking)
    thought, text, call = got.content
    assert thought == {"type": "thinking", "thinking": "Hm.", "signature": "signed Hm."}
    assert (text, call["name"], call["input"]) == ({"type": "text", "text": "Well."}, "submit_kernel", ANSWER)
    assert list(dict.fromkeys(heard)) == ["", "thinking", "writing", "submit_kernel"]


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        ("refusal", ReplyStatus.REFUSAL),
        ("max_tokens", ReplyStatus.TRUNCATED),
        ("model_context_window_exceeded", ReplyStatus.TRUNCATED),
        ("end_turn", ReplyStatus.ANSWERED),
    ],
)
def test_how_a_message_ends_is_an_outcome(ask: Any, stop: str, status: ReplyStatus) -> None:
    with serving(server.message(text="so far", stop=stop)) as (url, script):
        asking = ask(url)
        assert answer(asking).status is status
        assert answer(asking).status is status  # final: not asked again
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    "failure",
    [
        server.status(429, "rate_limit_error", retry_after="0"),
        server.status(529, "overloaded_error"),
        server.status(500),
        server.status(503),
        server.plain(b"{not json", "text/event-stream"),
        server.plain(b"event: message_start\ndata: {not json\n\n", "text/event-stream"),
        server.plain(server.sse({"type": "message_start"}), "text/event-stream"),
        server.plain(
            server.sse({"type": "error", "error": {"type": "overloaded_error", "message": "full"}}),
            "text/event-stream",
        ),
        server.cut_message(6, reset=True, tool=ANSWER),
        server.cut_message(6, reset=False, tool=ANSWER),
        server.cut_message(0, reset=True),
    ],
    ids=[
        "429",
        "529",
        "500",
        "503",
        "no-sse",
        "bad-json",
        "no-message",
        "error-event",
        "reset",
        "cut",
        "empty",
    ],
)
def test_transient_failures_are_retried(ask: Any, failure: server.Action) -> None:
    with serving(failure, failure, server.message(tool=ANSWER)) as (url, script):
        got = answer(ask(url))
    assert json.loads(got.reply) == ANSWER
    assert len(script.asked) == 3


def test_timeouts_are_retried(ask: Any) -> None:
    release = threading.Event()
    with serving(server.sleep(release), server.message(tool=ANSWER)) as (url, script):
        got = answer(ask(url, timeout_s=0.3))
        release.set()
    assert json.loads(got.reply) == ANSWER
    assert len(script.asked) >= 2  # a loaded machine may need one more


def test_persistent_failures_end_in_one_line(ask: Any) -> None:
    """And whoever waits for the later tries hears of them."""
    said: list[str] = []
    with (
        serving(server.status(529, "overloaded_error")) as (url, script),
        pytest.raises(RemoteError, match=r"overloaded_error: said the server: overloaded_error, 4 times"),
    ):
        asking = ask(url)
        asking.note = said.append
        answer(asking)
    assert len(script.asked) == QUICK.tries
    assert [line.split("; ")[-1] for line in said] == ["try 3 of 4 in 0 s", "try 4 of 4 in 0 s"]
    assert "overloaded_error" in said[0]


def test_an_interrupted_answer_is_paid_for_and_saved_but_requested_again(ask: Any, tmp_path: Path) -> None:
    cut = server.cut_message(6, reset=True, tool=ANSWER)
    with serving(cut, server.message(tool=ANSWER)) as (url, _):
        asking = ask(url)
        answer(asking)
    lines = list(store.read_jsonl(tmp_path / "t.jsonl", Transcript))
    assert [line.exchange.status for line in lines] == [ReplyStatus.INTERRUPTED, ReplyStatus.ANSWERED]
    assert all(line.exchange.cost_usd for line in lines)
    assert asking.budget.spent_usd == pytest.approx(sum(line.exchange.cost_usd or 0 for line in lines))


def test_a_saved_answer_is_not_requested_again(ask: Any) -> None:
    with serving(server.message(tool=ANSWER)) as (url, script):
        first = answer(ask(url))
        again = answer(ask(url))  # a new process would read the same file
        other = ask(url)
        answer(other, sample=2)
    assert again == first
    assert len(script.asked) == 2


@pytest.mark.parametrize(
    ("code", "error_type", "said"),
    [
        (401, "authentication_error", r"the API key was refused \(check ANTHROPIC_API_KEY\)"),
        (403, "permission_error", "the API key may not do this"),
        (402, "billing_error", "the account has no credit"),
        (404, "not_found_error", f"no model '{MODEL}' here"),
    ],
)
def test_fatal_failures_end_the_run_at_once(ask: Any, code: int, error_type: str, said: str) -> None:
    with serving(server.status(code, error_type)) as (url, script), pytest.raises(RemoteError, match=said):
        answer(ask(url))
    assert len(script.asked) == 1


def test_a_rejected_request_is_an_outcome_and_three_from_the_start_are_an_error(ask: Any) -> None:
    with serving(server.status(400, "invalid_request_error")) as (url, script):
        asking = ask(url)
        assert answer(asking, 1).status is ReplyStatus.REJECTED
        assert answer(asking, 2).status is ReplyStatus.REJECTED
        with pytest.raises(RemoteError, match="rejects every request: status 400"):
            answer(asking, 3)
    assert len(script.asked) == 3


def test_missing_network_is_reported_after_few_tries(ask: Any) -> None:
    with pytest.raises(RemoteError, match=r"cannot be reached: .*, 2 times"):
        answer(ask(server.closed_port()))


def test_missing_key_is_reported_before_any_request(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(MissingDependencyError, match=r"no API key for Claude \(set ANTHROPIC_API_KEY\)"):
        ask("http://127.0.0.1:1")


def test_budget_stops_before_the_request_that_might_break_it(ask: Any) -> None:
    most = Price(3, 15, 3.75, 0.3).most_usd(2048 + 15, 1000)
    with serving(server.message(tool=ANSWER)) as (url, script):
        asking = ask(url, limit=1.5 * most)
        answer(asking, 1)
        spent = asking.budget.spent_usd
        count = 1
        with pytest.raises(BudgetSpentError, match=r"the budget of \$0.\d\d does not allow another request"):
            for sample in range(2, 100):
                answer(asking, sample)
                count += 1
        assert asking.budget.spent_usd == pytest.approx(count * spent)
        assert asking.budget.spent_usd <= 1.5 * most
        assert answer(asking, 1).status is ReplyStatus.ANSWERED  # what is on file costs nothing
    assert len(script.asked) == count
