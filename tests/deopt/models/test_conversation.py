"""Conversations with scripted stubs of Claude, through the real client: tools, ends, budgets, replays."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import pytest
from deopt.models import server, workbench
from deopt.models.server import message, serving
from deopt.models.test_batches import BatchServer
from deopt.models.workbench import FAST, NO_UNROLL, ScriptedJudge, seams

from kcurate.core import store
from kcurate.deopt.models.preview import preview
from kcurate.deopt.models.run import Seams, run
from kcurate.errors import RemoteError
from kcurate.models import prices
from kcurate.models.client import Patience
from kcurate.models.prices import BudgetSpentError
from kcurate.prompts import tasks, tools
from kcurate.prompts.problems import PROBLEM_TOOL
from kcurate.records import Attempt, Environment, Outcome, Transcript

RIGHT = {"code": NO_UNROLL}
WRONG = {"code": NO_UNROLL.replace("2.0f", "3.0f")}
MODEL = "claude-sonnet-5-5"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")


def judge() -> ScriptedJudge:
    return ScriptedJudge({"3.0f": Outcome.MISMATCH})


Calls = list[tuple[str, dict[str, Any]]]
SOLVING: Calls = [
    ("compile", WRONG),
    ("run_tests", {"version": 1}),
    ("compile", RIGHT),
    ("run_tests", {"version": 2}),
    ("time", {"version": 2}),
    ("profile", {"version": 2}),
    ("submit_version", {"version": 2}),
]


def calling(calls: Calls, **parts: Any) -> list[server.Action]:
    return [message(tool=given, name=name, call=f"c{n}", **parts) for n, (name, given) in enumerate(calls)]


def talk(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    actions: list[server.Action],
    with_seams: Seams | None = None,
    **options: Any,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One search over one start: what it counted, and what was asked."""
    workbench.start(folder)
    with serving(*actions) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        try:
            summary = run(workbench.config(folder, MODEL, **options), seams=with_seams or seams(judge()))
        finally:
            asked = list(script.asked)
    return dict(summary.items), asked


def attempts(folder: Path) -> list[Attempt]:
    (path,) = (folder / "work" / "attempts").glob("*.jsonl")
    return list(store.read_jsonl(path, Attempt))


def transcripts(folder: Path) -> list[Transcript]:
    (path,) = (folder / "work" / "transcripts").glob("*.jsonl")
    return list(store.read_jsonl(path, Transcript))


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in (folder / "work").rglob("*.jsonl")
        if path.parent.name != "runs"
    }


def test_one_that_solves_by_tools_is_told_what_each_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(candidate: Any, sides: Any) -> dict[str, dict[str, float]]:
        return {side: {"load_sectors": 4.0} for side in sides}

    judging = judge()
    items, asked = talk(tmp_path, monkeypatch, calling(SOLVING), replace(seams(judging), count=counted))
    assert (items["attempts"], items["requests"]) == ({"confirmed": 1}, {"sent": 7})
    said = list(map(server.said, asked))
    assert said[1].startswith("Version 1 compiles.") and "(23 calls and 600 s of tools left)" in said[1]
    assert "Its results are wrong: scripted mismatch" in said[2]
    assert said[4].startswith("All tests pass")
    assert "is 1.500 (1.400 to 1.600)" in said[5] and "yours: " in said[5]
    assert "yours: load_sectors 4 sectors\ngiven: load_sectors 4 sectors" in said[6]
    assert len(judging.judged) == 2  # a version is judged once
    (folder,) = store.find_candidates(tmp_path / "work" / "pairs")
    assert store.read_candidate(folder).slow.code == NO_UNROLL
    for number, body in enumerate(asked):  # one conversation, whose prefix stays the same
        assert len(body["messages"]) == 2 * number + 1
        assert body["messages"][: 2 * number - 1] == asked[max(0, number - 1)]["messages"][: 2 * number - 1]
        assert (body["thinking"], body["tool_choice"]["type"]) == ({"type": "adaptive"}, "auto")
        assert body["tools"] == asked[0]["tools"] and body["system"] == asked[0]["system"]
    assert asked[3]["cache_control"] == {"type": "ephemeral"}


def test_one_that_needs_three_turns_sees_its_failed_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [WRONG, {"code": "no kernel", "plan": []}, RIGHT]
    actions = [message(tool=given, call=f"c{n}") for n, given in enumerate(answers)]
    items, asked = talk(tmp_path, monkeypatch, actions)
    assert items["attempts"] == {"confirmed": 1, "malformed": 1, "mismatch": 1}
    last = asked[-1]["messages"]
    assert [entry["role"] for entry in last] == ["user", "assistant", "user", "assistant", "user"]
    assert last[1]["content"][0]["input"] == WRONG and last[3]["content"][0]["input"] == answers[1]
    assert last[2]["content"][0]["type"] == "tool_result" and last[2]["content"][0]["tool_use_id"] == "c0"
    assert "scripted mismatch" in last[2]["content"][0]["content"]
    assert "the plan is not a list of steps" in last[4]["content"][0]["content"]


def test_one_that_thinks_gets_its_thoughts_back_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions = calling(
        [("compile", RIGHT), ("submit_version", {"version": 1})], thinking="Hm.", text="Let me see."
    )
    items, asked = talk(tmp_path, monkeypatch, actions, effort="high")
    assert items["attempts"] == {"confirmed": 1}
    thought, text, call = asked[1]["messages"][1]["content"]
    assert thought == {"type": "thinking", "thinking": "Hm.", "signature": "signed Hm."}
    assert (text["text"], call["name"]) == ("Let me see.", "compile")
    assert [body["output_config"] for body in asked] == [{"effort": "high"}] * 2


def test_one_that_refuses_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actions = [*calling([("compile", RIGHT)]), message(text="No.", stop="refusal")]
    items, asked = talk(tmp_path, monkeypatch, actions)
    assert (items["attempts"], items["searches"], len(asked)) == ({"refusal": 1}, {"hopeless": 1}, 2)


def test_one_of_several_that_refuses_is_asked_anew_without_its_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faster = {"code": FAST.replace("2.0f", "(1.0f + 1.0f)")}
    actions = [message(text="No.", stop="refusal"), message(tool=WRONG), message(tool=faster)]
    options = {"direction": "fast", "techniques": (), "candidates": 2, "rounds": 2, "concurrency": 1}
    items, asked = talk(tmp_path, monkeypatch, actions, **options)
    assert items["attempts"] == {"confirmed": 1, "mismatch": 1, "near_duplicate": 1, "refusal": 1}
    assert "No." not in json.dumps(asked[2]["messages"]) and "3.0f" in json.dumps(asked[2]["messages"])


def test_one_that_pauses_goes_on_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actions = [message(text="One moment.", stop="pause_turn"), message(tool=RIGHT)]
    items, asked = talk(tmp_path, monkeypatch, actions)
    assert items["attempts"] == {"confirmed": 1}
    assert asked[1]["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "One moment."}]}
    ]


def test_one_that_only_pauses_runs_out_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"tool_calls": 2, "rounds": 1}
    items, asked = talk(tmp_path, monkeypatch, [message(text="One moment.", stop="pause_turn")], **options)
    assert (items["attempts"], len(asked)) == ({"malformed": 1}, 5)


def test_one_that_is_cut_off_is_told_so_and_shown_what_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = message(thinking="Hm.", text="Here.", tool=RIGHT, stop="max_tokens")
    items, asked = talk(tmp_path, monkeypatch, [cut, message(tool=RIGHT)])
    assert items["attempts"] == {"confirmed": 1, "truncated": 1}
    assert asked[1]["messages"][1]["content"] == [{"type": "text", "text": "Here."}]
    assert "cut off before its end" in server.said(asked[1])


def test_one_that_stalls_is_mentioned_and_asked_again_until_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    impatient = replace(seams(judge()), timeout_s=0.3, patience=Patience(tries=2, first_s=0.01))
    try:
        with pytest.raises(RemoteError, match="the server took too long, 2 times"):
            talk(tmp_path, monkeypatch, [*calling(SOLVING[:1]), server.sleep(release)], impatient)
    finally:
        release.set()
    assert [line.exchange.status for line in transcripts(tmp_path)] == [
        "answered",
        "interrupted",
        "interrupted",
    ]
    items, asked = talk(tmp_path, monkeypatch, calling(SOLVING)[2:])
    assert items["attempts"] == {"confirmed": 1}  # it went on after the first call
    assert [entry["role"] for entry in asked[0]["messages"]] == ["user", "assistant", "user"]


def test_calls_and_seconds_of_tools_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judging = judge()
    again: Calls = [("compile", WRONG), ("run_tests", {"version": 1}), ("time", {"version": 1}), ("time", {})]
    actions = [*calling(again), message(tool=RIGHT, call="last")]
    items, asked = talk(tmp_path, monkeypatch, actions, seams(judging), tool_calls=2)
    assert items["attempts"] == {"confirmed": 1}
    assert "(0 calls and" in server.said(asked[2])
    assert server.said(asked[3]) == "Not run: no calls are left. Hand in your answer now."
    assert asked[3]["messages"][-1]["content"][0]["is_error"] is True
    items, asked = talk(tmp_path / "slow", monkeypatch, calling(SOLVING), seams(judging), tool_seconds=0)
    assert server.said(asked[1]) == "Not run: no seconds are left. Hand in your answer now."


def test_calls_without_an_answer_are_a_malformed_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions = [
        lambda handler, body: message(tool=WRONG, name="compile", call=f"c{len(body['messages'])}")(
            handler, body
        )
    ]
    items, asked = talk(tmp_path, monkeypatch, actions, tool_calls=3, rounds=1)
    assert (items["attempts"], len(asked)) == ({"malformed": 1}, 3 + 2 + 1)
    assert attempts(tmp_path)[0].detail == "the calls are used up and no answer was handed in"


def test_dollars_end_a_conversation_before_the_request_that_might_break_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path)
    (first,) = preview(workbench.config(tmp_path, MODEL))
    price = prices.find_price(MODEL)
    assert price is not None
    most = 1.05 * price.most_usd(first.request.size_bytes, first.request.max_tokens)
    counted = {"input_tokens": 5000, "output_tokens": 900}  # the stub ends with 50 out
    with pytest.raises(BudgetSpentError):
        talk(tmp_path, monkeypatch, calling(SOLVING, usage=counted), max_usd=most)
    before = transcripts(tmp_path)
    assert 0 < len(before) < 7
    assert sum(line.exchange.cost_usd or 0.0 for line in before) <= most
    rest = calling(SOLVING)[len(before) :]
    items, asked = talk(tmp_path, monkeypatch, rest)
    assert (items["attempts"], len(asked)) == ({"confirmed": 1}, len(rest))


def test_a_conversation_replays_byte_for_byte_without_a_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = talk(tmp_path, monkeypatch, calling(SOLVING))
    saved = files(tmp_path)
    none = ScriptedJudge()
    items, asked = talk(tmp_path, monkeypatch, [server.status(500)], seams(none))
    assert (items["attempts"], asked, none.judged, files(tmp_path)) == ({"confirmed": 1}, [], [], saved)
    (tmp_path / "work/attempts" / f"{MODEL}.jsonl").unlink()  # only the transcripts are left
    other = ScriptedJudge(ratio=3.0)
    items, asked = talk(tmp_path, monkeypatch, [server.status(500)], seams(other))
    assert (items["requests"], asked, len(other.judged)) == (
        {"on_file": 7},
        [],
        1,
    )  # only the answer is judged
    lines = transcripts(tmp_path)
    assert [line.turn.text if line.turn else None for line in lines[1:]] == list(map(server.said, first[1:]))
    assert [line.after for line in lines] == [None, *(line.key for line in lines[:-1])]


def test_a_call_that_makes_no_sense_is_an_error_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Calls = [("time", {"version": 4}), ("compile", {"code": " "}), ("submit_version", {"version": 9})]
    actions = [*calling(calls), message(tool=RIGHT, call="last")]
    items, asked = talk(tmp_path, monkeypatch, actions, rounds=2)
    assert items["attempts"] == {"confirmed": 1, "malformed": 1}
    assert server.said(asked[1]).startswith("Not run: there is no version 4")
    assert server.said(asked[2]).startswith("Not run: the tool's input has no code")
    assert "there is no version 9" in server.said(asked[3])


def test_a_call_that_is_nested_without_end_is_a_malformed_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    items, _ = talk(tmp_path, monkeypatch, [message(tool={"code": NO_UNROLL, "plan": nested})], rounds=1)
    assert items["attempts"] == {"malformed": 1}


def test_batches_hold_the_same_conversation_and_keep_its_prefix_for_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(batch: int, index: int, body: dict[str, Any]) -> dict[str, Any]:
        name, given = SOLVING[len(body["messages"]) // 2]
        call = {"type": "tool_use", "id": f"c{batch}", "name": name, "input": given}
        usage = {"input_tokens": 100, "output_tokens": 50, "cache_creation_input_tokens": 10}
        answered = {
            "id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [call],
            "stop_reason": "tool_use", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        return {"type": "succeeded", "message": answered}

    batches = BatchServer(result)
    items, _ = talk(tmp_path, monkeypatch, [batches], batch=True)
    assert (items["attempts"], items["requests"]) == ({"confirmed": 1}, {"batched": 7})
    bodies = [entry["params"] for entries in batches.batches.values() for entry in entries]
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert [body["system"][0]["cache_control"] for body in bodies] == [hour] * 7
    assert bodies[1]["cache_control"] == hour
    cost = transcripts(tmp_path)[0].exchange.cost_usd
    assert cost == pytest.approx((100 * 2 + 50 * 10 + 10 * 4) / 1e6 / 2)  # an hour costs twice the input


def test_a_model_without_tools_has_the_same_conversation_in_plain_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    workbench.start(tmp_path)
    replies = [server.completion(f"```cuda\n{given['code']}```") for given in (WRONG, RIGHT)]
    with serving(*replies) as (url, script):
        config = workbench.config(tmp_path, f"openai:m@{url}/v1", effort="low")
        summary = run(config, seams=seams(judge()))
    assert summary.items["attempts"] == {"confirmed": 1, "mismatch": 1}
    assert [entry["role"] for entry in script.asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert "3.0f" in script.asked[1]["messages"][2]["content"]
    assert "scripted mismatch" in script.asked[1]["messages"][3]["content"]
    assert {body["reasoning_effort"] for body in script.asked} == {"low"}


def test_without_calls_a_model_hands_in_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = talk(tmp_path, monkeypatch, [message(tool=RIGHT)], tool_calls=0)
    assert [tool["name"] for tool in asked[0]["tools"]] == ["submit_kernel"]
    assert "You have tools" not in asked[0]["system"][0]["text"]


def test_the_first_turn_names_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = {"code": FAST.replace("2.0f", "(1.0f + 1.0f)")}
    on_h200 = replace(seams(judge()), device=Environment("cuda", "NVIDIA H200"))
    options = {"direction": "fast", "techniques": (), "rounds": 1}
    _, asked = talk(tmp_path, monkeypatch, [message(tool=faster)], on_h200, **options)
    context = asked[0]["messages"][0]["content"][0]["text"]
    # 4 bytes read and 4 written an element, at 2^20 elements, by 4.8 TB/s.
    assert (
        "Target: by the data sheet, reading every input once and writing every output once takes 1.75 us"
        in context
    )


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_the_schemas_are_strict_as_the_server_demands(language: Any) -> None:
    every = [*tools.tools(language, []), PROBLEM_TOOL]
    assert all(tool["strict"] for tool in every)
    assert not server.refused({"tools": every})
    # The client's own helper moves what the server refuses into descriptions: here there is nothing.
    for tool in every:
        assert json.dumps(anthropic.transform_schema(tool["input_schema"]), sort_keys=True) == json.dumps(
            tool["input_schema"], sort_keys=True
        )


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, "property 'maxItems' is not"),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "'minItems' values other than 0 or 1",
        ),
        ({"type": "integer", "minimum": 1}, "property 'minimum' is not supported"),
        ({"type": "string", "maxLength": 9}, "property 'maxLength' is not supported"),
        ({"type": "object", "properties": {}}, "'additionalProperties' must be explicitly set to false"),
        ({"$ref": "#/$defs/step"}, "Recursive schemas are not supported: step"),
        ({"$ref": "other.json"}, r"\$ref 'other.json' is not defined"),
        ({"anyOf": [{"anyOf": []}] * 16}, r"too many parameters with a union \(17\)"),
    ],
)
def test_a_schema_that_the_server_refuses_is_rejected_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], fault: str
) -> None:
    steps = {"type": "array", "items": {"$ref": "#/$defs/step"}}
    asked = tools.tools("cuda", [], ())
    asked[0]["input_schema"] |= {"$defs": {"step": steps}}
    asked[0]["input_schema"]["properties"] = {"code": {"type": "string"}, "part": schema}
    asked[0]["input_schema"]["required"] = ["code", "part"]
    monkeypatch.setattr(tools, "tools", lambda *args: asked)
    items, _ = talk(tmp_path, monkeypatch, calling([("submit_kernel", RIGHT)]))
    assert items["attempts"] == {"rejected": 1}
    assert re.search(fault, attempts(tmp_path)[0].detail)


def test_the_stub_refuses_a_forced_tool_while_it_thinks() -> None:
    thinking = {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "tool", "name": "compile"}}
    assert server.refused(thinking) and not server.refused({**thinking, "tool_choice": {"type": "auto"}})


def test_a_plan_that_the_strict_schema_cannot_say_gets_a_loose_one() -> None:
    launch = {"launch": "k", "grid": [1], "block": [1], "args": [{"tensor_map": "a"}]}
    assert not any("strict" in tool for tool in tools.tools("cuda", [launch], ()))
    assert tools.expressible([{"for": "i", "to": 3, "do": [{**launch, "args": ["a"]}]}], "cuda")


def test_what_is_cached_first_is_long_enough_for_most_servers() -> None:
    """Where it is not, the kernel and the conversation are cached with it. A token has at most 4.5 bytes."""
    tokens = len(json.dumps(tools.tools("cuda", [])) + tasks.rules() + tools.told("cuda", 24, 600)) / 4.5
    least = {model: prices.facts(model).cache_least for model in (MODEL, "claude-opus-5", "claude-opus-4-7")}
    assert least == {MODEL: 512, "claude-opus-5": 512, "claude-opus-4-7": 2048}
    assert tokens > max(least.values())
