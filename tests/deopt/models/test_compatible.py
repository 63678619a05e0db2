"""Chat-completion servers, spoken to by the real client on loopback."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server
from deopt.models.server import serving

from kcurate.errors import MissingDependencyError, OptionError, RemoteError
from kcurate.models import asking as asking_module
from kcurate.models.asking import Asking
from kcurate.models.client import Patience
from kcurate.models.compatible import CompatibleClient
from kcurate.models.naming import ModelName
from kcurate.models.opening import Spending, open_asking
from kcurate.models.prices import Budget, parse_price
from kcurate.models.transcripts import Transcripts
from kcurate.records import Exchange, Prompt, ReplyStatus

TEXT = "```cuda\n__global__ void k() {}\n```"
QUICK = Patience(tries=4, unreachable_tries=2, first_s=0.01, most_s=0.02)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def asking(url: str, folder: Path, *, price: str | None = None, timeout_s: float = 30.0) -> Asking:
    return Asking(
        CompatibleClient("qwen", f"{url}/v1", timeout_s=timeout_s),
        Transcripts(folder / "t.jsonl", "qwen"),
        price=parse_price(price) if price else None,
        budget=Budget(None),
        max_tokens=1000,
        patience=QUICK,
    )


def answer(one: Asking) -> Exchange:
    with contextlib.closing(one.client):
        return one.answer(one.request(Prompt("rules", "kernel", "task"), 1))


def test_answer_is_text_with_its_tokens(tmp_path: Path) -> None:
    with serving(server.completion(TEXT)) as (url, script):
        got = answer(asking(url, tmp_path, price="1,10"))
    assert (got.status, got.form, got.reply) == (ReplyStatus.ANSWERED, "text", TEXT)
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.cache_read_tokens, got.usage.output_tokens) == (100, 20, 60)
    assert got.cost_usd == pytest.approx((120 * 1 + 60 * 10) / 1e6)
    assert script.paths == ["/v1/chat/completions"]
    assert [message["role"] for message in script.asked[0]["messages"]] == ["system", "user"]
    assert script.asked[0]["messages"][1]["content"] == "kernel\ntask"


def test_a_server_without_token_counts_uses_up_the_reservation(tmp_path: Path) -> None:
    with serving(server.completion(TEXT, usage=False)) as (url, _):
        one = asking(url, tmp_path, price="1,10")
        got = answer(one)
    assert (got.status, got.usage, got.cost_usd) == (ReplyStatus.ANSWERED, None, None)
    assert one.budget.spent_usd > 1000 * 10 / 1e6


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (server.completion("so f", "length"), ReplyStatus.TRUNCATED),
        (server.completion("", "content_filter"), ReplyStatus.REFUSAL),
        (server.completion("", "stop", refusal="I cannot"), ReplyStatus.REFUSAL),
        (server.status(400, "invalid_request_error"), ReplyStatus.REJECTED),
    ],
    ids=["length", "filter", "refusal", "400"],
)
def test_how_a_completion_ends_is_an_outcome(
    tmp_path: Path, action: server.Action, status: ReplyStatus
) -> None:
    with serving(action) as (url, script):
        assert answer(asking(url, tmp_path)).status is status
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    "failure",
    [
        server.status(429, retry_after="0"),
        server.status(529),
        server.status(500),
        server.plain(b"data: {not json\n\n", "text/event-stream"),
        server.plain(b"data: [1, 2]\n\ndata: [DONE]\n\n", "text/event-stream"),
        server.plain(b'data: {"error": {"message": "full"}}\n\n', "text/event-stream"),
        server.cut_completion("half an ans", reset=True),
        server.cut_completion("half an ans", reset=False),
    ],
    ids=["429", "529", "500", "bad-json", "no-chunk", "error-event", "reset", "cut"],
)
def test_transient_failures_are_retried(tmp_path: Path, failure: server.Action) -> None:
    with serving(failure, failure, server.completion(TEXT)) as (url, script):
        assert answer(asking(url, tmp_path)).reply == TEXT
    assert len(script.asked) == 3


def test_timeouts_are_retried(tmp_path: Path) -> None:
    release = threading.Event()
    with serving(server.sleep(release), server.completion(TEXT)) as (url, script):
        assert answer(asking(url, tmp_path, timeout_s=0.3)).reply == TEXT
        release.set()
    assert len(script.asked) >= 2  # a loaded machine may need one more


@pytest.mark.parametrize(
    ("code", "said"),
    [(401, r"the API key was refused \(check OPENAI_API_KEY\)"), (404, "no model 'qwen' here")],
)
def test_failures_of_every_request_end_the_run_at_once(tmp_path: Path, code: int, said: str) -> None:
    with serving(server.status(code)) as (url, script), pytest.raises(RemoteError, match=said):
        answer(asking(url, tmp_path))
    assert len(script.asked) == 1


def test_missing_server_is_reported_after_few_tries(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match=r"cannot be reached: .*, 2 times"):
        answer(asking(server.closed_port(), tmp_path))


def test_the_makers_own_server_needs_a_key() -> None:
    with pytest.raises(MissingDependencyError, match=r"no API key for OpenAI \(set OPENAI_API_KEY\)"):
        CompatibleClient("gpt")


def test_lone_surrogates_are_replaced_before_saving(tmp_path: Path) -> None:
    with serving(server.completion("a\ud800b")) as (url, _):
        one = asking(url, tmp_path)
        assert answer(one).reply == "a?b"
    assert answer(asking("http://127.0.0.1:1", tmp_path)).reply == "a?b"


def test_a_silent_server_is_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_module, "SILENT_S", 0.05)
    noted: list[str] = []
    mentioned = threading.Event()

    def note(line: str) -> None:
        noted.append(line)
        mentioned.set()

    def answer_then(handler: server.Handler, body: dict[str, Any]) -> None:
        assert mentioned.wait(30)
        server.completion(TEXT)(handler, body)

    with serving(answer_then) as (url, _):
        path = asking(url, tmp_path)
        path.note = note
        assert answer(path).status is ReplyStatus.ANSWERED
    assert noted == [f"{url}/v1: no answer for 0 s, still waiting"]


@pytest.mark.parametrize(
    "name",
    [ModelName("anthropic", "claude-haiku-4-5"), ModelName("local", "m", "m.gguf")],
    ids=["claude", "local"],
)
def test_a_model_without_effort_levels_takes_none(tmp_path: Path, name: ModelName) -> None:
    with pytest.raises(OptionError, match=r"--effort: .* has no effort levels"):
        open_asking(name, tmp_path, Spending(), options={"effort": "high"})


def test_claude_takes_no_sampling_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with pytest.raises(OptionError, match=r"--temperature and --top-p: Claude's API has no such option"):
        open_asking(
            ModelName("anthropic", "claude-sonnet-5-5"),
            tmp_path,
            Spending(),
            options={"temperature": 0.7, "top_p": 0.9},
        )
