"""A local model asked like those behind an API: plain turns, transcripts, a context that fills up."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.evaluation import local_model
from kcurate.evaluation.local_client import client_of
from kcurate.models.asking import Asking
from kcurate.models.naming import ModelName, parse_model
from kcurate.models.opening import Spending, open_asking
from kcurate.records import Prompt, ReplyStatus, Turn

PROMPT = Prompt("Answer.", "Kernel: k", "Write it.")


def asking_of(name: ModelName, folder: Path, max_tokens: int = 130) -> Asking:
    spending = Spending(1.0, max_tokens=max_tokens)  # a budget needs no price here
    return open_asking(name, folder, spending, client=client_of(name, max_tokens))


def test_a_file_names_a_local_model(tmp_path: Path) -> None:
    path = tmp_path / "Some.Q4_1.gguf"
    with pytest.raises(InputError, match="no such file"):
        parse_model(str(path))
    path.write_bytes(b"GGUF")
    name = parse_model(str(path))
    assert (name.provider, name.model, name.base_url) == ("local", "Some.Q4_1", str(path))


def test_a_local_model_holds_a_conversation_and_is_asked_once(model: Path, tmp_path: Path) -> None:
    name = ModelName("local", "tiny", str(model))
    asking = asking_of(name, tmp_path)
    with contextlib.closing(asking.client):
        request = asking.request(PROMPT, 1)
        first = asking.answer(request)
        second = asking.answer(asking.going_on(request.key, Turn("Once more."), 1))
        assert first.usage is not None and second.usage is not None
        assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens - 2
    again = asking_of(name, tmp_path)
    assert again.answer(again.request(PROMPT, 1)) == first
    assert (again.counts, again.budget.spent_usd) == ({"on_file": 1}, 0.0)


def test_a_conversation_that_fills_the_context_is_rejected(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "LEAST_ROOM", 1 << 20)
    asking = asking_of(ModelName("local", "tiny", str(model)), tmp_path)
    with contextlib.closing(asking.client):
        exchange = asking.answer(asking.request(PROMPT, 1))
    assert exchange.status is ReplyStatus.REJECTED and "fills the model's context" in exchange.detail
