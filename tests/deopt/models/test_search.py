"""Searches end to end: the real clients, a server on loopback, a judge that follows a script."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server, workbench
from deopt.models.server import serving
from deopt.models.workbench import FAST, NO_LDG, NO_UNROLL, ScriptedJudge, seams, verdict

from kcurate.core import store
from kcurate.deopt.models.run import run
from kcurate.records import Attempt, AttemptOutcome, Outcome

RIGHT = {"code": NO_UNROLL}
NAIVE = NO_UNROLL.replace("__ldg(x + at)", "x[at]")


def renamed(code: str, name: str = "place") -> str:
    return re.sub(r"\bat\b", name, code)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")


def attempts(folder: Path) -> list[Attempt]:
    (path,) = (folder / "work" / "attempts").glob("*.jsonl")
    return list(store.read_jsonl(path, Attempt))


def task(asked: dict[str, Any]) -> str:
    return server.said(asked)


def search(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    actions: list[server.Action],
    judge: ScriptedJudge | None = None,
    **options: Any,
) -> tuple[dict[str, Any], server.Script]:
    """One run over one start; what it counted, and what it asked."""
    workbench.start(folder)
    with serving(*actions) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        summary = run(
            workbench.config(folder, "claude-opus-4-8", **options), seams=seams(judge or ScriptedJudge())
        )
    return dict(summary.items), script


def test_an_accepted_answer_becomes_a_candidate_and_a_second_run_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = ScriptedJudge()
    items, script = search(tmp_path, monkeypatch, [server.message(tool=RIGHT)], judge)
    assert items == {
        "kernels": {"variants": 1},
        "searches": {"accepted": 1},
        "attempts": {"confirmed": 1},
        "requests": {"sent": 1},
    }
    folder = tmp_path / "work/pairs/own/scale/deopt-claude-opus-4-8-loop-unrolling-1"
    candidate = store.read_candidate(folder)
    assert candidate.slow.code == NO_UNROLL
    assert candidate.fast.code == FAST
    assert candidate.slow.plan == candidate.fast.plan
    assert candidate.techniques == ("loop-unrolling",)
    assert (candidate.origin.kind, candidate.origin.made, candidate.origin.model) == (
        "model",
        "slow",
        "claude-opus-4-8",
    )
    assert [one.outcome for one in store.read_verdicts(folder)] == [Outcome.CONFIRMED]
    before = {path: path.read_bytes() for path in (tmp_path / "work").rglob("*.jsonl")}
    items, script = search(tmp_path, monkeypatch, [server.status(500)], judge)
    assert (items["searches"], items["requests"], script.asked) == ({"accepted": 1}, {}, [])
    assert len(judge.judged) == 1
    assert {path: path.read_bytes() for path in (tmp_path / "work").rglob("*.jsonl")} == before


def test_what_the_judge_found_goes_into_the_next_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"code": NO_UNROLL.replace("2.0f", "3.0f")}
    broken = {"code": NO_UNROLL.replace("2.0f", "nothing")}

    class Judge(ScriptedJudge):
        def __call__(self, candidate: Any) -> Any:
            if "nothing" in candidate.slow.code:
                log = "/tmp/secret/place/x.cu(6): error: identifier nothing is undefined\n" + "note\n" * 100
                return verdict(
                    candidate, Outcome.COMPILE_ERROR, side="slow", log=log, detail="does not compile"
                )
            if "3.0f" in candidate.slow.code:
                return verdict(
                    candidate, Outcome.MISMATCH, side="slow", detail="y[3]: 3.0 where 2.0 is right"
                )
            return verdict(candidate, Outcome.CONFIRMED)

    answers = [server.message(tool=one) for one in (broken, wrong, RIGHT)]
    items, script = search(tmp_path, monkeypatch, answers, Judge())
    assert items["attempts"] == {"compile_error": 1, "mismatch": 1, "confirmed": 1}
    assert "identifier nothing is undefined" in task(script.asked[1])
    assert "secret" not in task(script.asked[1])
    assert task(script.asked[1]).count("note") < 40
    assert "y[3]: 3.0 where 2.0 is right" in task(script.asked[2])
    assert "3.0f" in json.dumps(script.asked[2]["messages"][-2])  # the wrong answer is in view
    assert [(one.action, one.parent is None) for one in attempts(tmp_path)] == [
        ("write", True),
        ("repair", False),
        ("repair", False),
    ]


def test_a_variant_that_is_not_slower_is_asked_for_again_with_the_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = ScriptedJudge({".": Outcome.NOT_FASTER}, ratio=1.004)
    answers = [
        server.message(tool=RIGHT),
        server.message(tool={"code": NO_UNROLL.replace("int at", "int place")}),
    ]
    items, script = search(tmp_path, monkeypatch, answers, judge, rounds=2)
    assert items["searches"] == {"out_of_rounds": 1}
    assert items["kernels"] == {"no_variant": 1}
    assert "1.004" in task(script.asked[1])
    assert attempts(tmp_path)[1].action == "improve"


IDLE_LOOP = "  for (int r = 0; r < 50; ++r) { y[0] = x[0]; }\n  int i"
LAUNCH = {"launch": "scale", "grid": [1], "block": [1], "args": ["x", "y", "n"]}
FILE = {"dtype": "float32", "shape": [1], "init": {"kind": "file", "path": "/etc/passwd"}}
REFUSED: dict[str, tuple[dict[str, Any], AttemptOutcome, str]] = {
    "unchanged": ({"code": renamed(FAST)}, AttemptOutcome.UNCHANGED, "the code that was given"),
    "kept": (
        {"code": FAST + "__device__ int f() { return 1; }"},
        AttemptOutcome.TECHNIQUE_KEPT,
        "still in the code: loop-unrolling",
    ),
    "sham": (
        {"code": NO_UNROLL.replace("  int i", IDLE_LOOP)},
        AttemptOutcome.SHAM,
        "repeats the same work",
    ),
    "label": ({"code": renamed(NO_UNROLL, "naive_at")}, AttemptOutcome.LABEL_LEAK, "naive_at"),
    "idle-plan": (
        {"code": NO_UNROLL, "plan": [{"for": "t", "to": 9, "do": [LAUNCH]}]},
        AttemptOutcome.SHAM,
        "which its steps do not use",
    ),
    "twice": ({"code": NO_UNROLL, "plan": [LAUNCH, LAUNCH]}, AttemptOutcome.SHAM, "repeats a step"),
    "no-plan": ({"code": NO_UNROLL, "plan": [{"sing": 1}]}, AttemptOutcome.MALFORMED, "plan step needs"),
    "grid": (
        {"code": NO_UNROLL, "plan": [LAUNCH | {"grid": [[1]]}]},
        AttemptOutcome.MALFORMED,
        "slow.plan[0].grid[0]",
    ),
    "file": (
        {"code": NO_UNROLL, "plan": [LAUNCH], "buffers": {"z": FILE}},
        AttemptOutcome.MALFORMED,
        "needs dtype and shape, and nothing else",
    ),
    "no-code": ({"note": "I would rather not"}, AttemptOutcome.MALFORMED, "no code"),
}


@pytest.mark.parametrize(("answer", "outcome", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_answer_is_recorded_fed_back_and_never_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, Any],
    outcome: AttemptOutcome,
    said: str,
) -> None:
    judge = ScriptedJudge()
    _, script = search(
        tmp_path, monkeypatch, [server.message(tool=answer), server.message(tool=RIGHT)], judge
    )
    assert [one.outcome for one in attempts(tmp_path)] == [outcome, AttemptOutcome.JUDGED]
    assert said in task(script.asked[1])
    assert [one.slow.code for one in judge.judged] == [NO_UNROLL]


def test_comments_are_removed_from_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commented = {"code": "// the slow, naive version\n" + NO_UNROLL}
    items, _ = search(tmp_path, monkeypatch, [server.message(tool=commented)])
    assert items["attempts"] == {"confirmed": 1}
    (found,) = store.find_candidates(tmp_path / "work" / "pairs")
    assert store.read_candidate(found).slow.code == NO_UNROLL


def test_a_refusal_ends_the_search_and_a_cut_off_answer_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = server.message(tool={"code": "__global__ void sc"}, stop="max_tokens")
    items, script = search(tmp_path, monkeypatch, [cut, server.message(text="No.", stop="refusal")])
    assert items["attempts"] == {"refusal": 1, "truncated": 1}
    assert items["searches"] == {"hopeless": 1}
    assert "cut off before its end" in task(script.asked[1])


def test_near_duplicates_and_equal_machine_code_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [server.message(tool=RIGHT), server.message(tool={"code": renamed(NO_UNROLL)})]
    items, _ = search(tmp_path, monkeypatch, answers, variants=2, rounds=1, concurrency=1)
    assert items["attempts"] == {"near_duplicate": 1, "confirmed": 1}

    class Same(ScriptedJudge):
        def __call__(self, candidate: Any) -> Any:
            found = verdict(candidate, Outcome.CORRECT)
            return verdict(candidate, Outcome.CORRECT, slow=found.fast)

    items, _ = search(tmp_path / "again", monkeypatch, [server.message(tool=RIGHT)], Same(), rounds=1)
    assert items["attempts"] == {"same_machine_code": 1}


def test_every_technique_that_the_code_shows_is_a_search_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once the wholly naive side is asked for."""

    def act(handler: server.Handler, body: dict[str, Any]) -> None:
        asked = task(body).splitlines()[0]
        code = NO_UNROLL if "unrolling" in asked else NO_LDG if "read-only" in asked else NAIVE
        server.message(tool={"code": code})(handler, body)

    items, script = search(tmp_path, monkeypatch, [act], techniques=())
    assert items["searches"] == {"accepted": 3}
    names = {path.name for path in store.find_candidates(tmp_path / "work" / "pairs")}
    assert names == {
        "deopt-claude-opus-4-8-loop-unrolling-1",
        "deopt-claude-opus-4-8-plain-1",
        "deopt-claude-opus-4-8-read-only-cache-1",
    }
    contexts = {body["messages"][0]["content"][0]["text"] for body in script.asked}
    assert len(contexts) == 1  # what the server's prompt cache keeps


def test_the_other_direction_starts_from_the_slow_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"code": FAST.replace("2.0f", "(1.0f + 1.0f)")}
    items, script = search(
        tmp_path, monkeypatch, [server.message(tool=quick)], direction="fast", techniques=()
    )
    assert items["searches"] == {"accepted": 1}
    assert "y[0] = x[0]" in script.asked[0]["messages"][0]["content"][0]["text"]
    (found,) = store.find_candidates(tmp_path / "work" / "pairs")
    candidate = store.read_candidate(found)
    assert (candidate.origin.made, candidate.techniques) == ("fast", ("loop-unrolling", "read-only-cache"))
    assert "y[0] = x[0]" in candidate.slow.code


def test_a_chat_server_is_asked_in_the_form_that_models_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    workbench.start(tmp_path)
    with serving(server.completion(f"<think>hm</think>\n```cuda\n{NO_UNROLL}```")) as (url, script):
        summary = run(workbench.config(tmp_path, f"openai:qwen@{url}/v1"), seams=seams(ScriptedJudge()))
    assert summary.items["searches"] == {"accepted": 1}
    assert "```cuda block" in script.asked[0]["messages"][0]["content"]


def test_an_ambiguous_verdict_is_made_again_from_the_answer_on_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [server.message(tool=RIGHT)]
    items, _ = search(
        tmp_path, monkeypatch, answers, ScriptedJudge({".": Outcome.AMBIGUOUS_TIMING}), rounds=1
    )
    assert items["attempts"] == {"ambiguous_timing": 1}
    items, script = search(tmp_path, monkeypatch, [server.status(500)], ScriptedJudge(), rounds=1)
    assert (items["attempts"], items["requests"], script.asked) == ({"confirmed": 1}, {"on_file": 1}, [])


def test_transcripts_hold_prompt_and_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search(tmp_path, monkeypatch, [server.message(tool=RIGHT)])
    (path,) = (tmp_path / "work" / "transcripts").glob("*.jsonl")
    (line,) = [json.loads(text) for text in path.read_text().splitlines()]
    assert line["key"] == attempts(tmp_path)[0].prompt
    assert json.loads(line["exchange"]["reply"]) == RIGHT
    assert "scale" in line["prompt"]["context"]
    assert line["exchange"]["cost_usd"] > 0


def test_pairs_that_share_a_side_are_asked_about_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path, name="twin")
    items, script = search(tmp_path, monkeypatch, [server.message(tool=RIGHT)])
    assert items["kernels"] == {"variants": 1, "duplicate": 1}
    assert len(script.asked) == 1


def test_the_existing_side_of_a_pair_is_not_a_new_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = renamed("__global__ void scale(const float *x, float *y, int n) { y[0] = x[0]; int at; }")
    workbench.start(tmp_path, slow=own)
    items, _ = search(tmp_path, monkeypatch, [server.message(tool={"code": renamed(own, "it")})], rounds=1)
    assert items["attempts"] == {"near_duplicate": 1}


def test_more_variants_or_rounds_ask_only_for_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = ScriptedJudge({"2.0f": Outcome.NOT_FASTER})
    other = {"code": renamed(NO_UNROLL).replace("2.0f", "(1.0f + 1.0f)")}
    search(tmp_path, monkeypatch, [server.message(tool=RIGHT)], judge, rounds=1)
    items, script = search(tmp_path, monkeypatch, [server.message(tool=other)], judge, rounds=2)
    assert (items["searches"], len(script.asked)) == ({"accepted": 1}, 1)
    different = {"code": NO_UNROLL.replace("2.0f *", "1.0f * 4.0f / 2.0f *").replace("2.0f", "2.00f")}
    items, script = search(
        tmp_path, monkeypatch, [server.message(tool=different)], ScriptedJudge(), rounds=2, variants=2
    )
    assert (items["searches"], len(script.asked)) == ({"accepted": 2}, 1)
    assert "request number 2" in task(script.asked[0])


def test_a_candidate_that_was_deleted_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(tmp_path, monkeypatch, [server.message(tool=RIGHT)])
    (folder,) = store.find_candidates(tmp_path / "work" / "pairs")
    shutil.rmtree(folder)
    items, script = search(tmp_path, monkeypatch, [server.status(500)])
    assert (items["searches"], script.asked) == ({"accepted": 1}, [])
    assert store.read_candidate(folder).slow.code == NO_UNROLL
