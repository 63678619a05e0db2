"""What a model is shown, and how its replies are read."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate import prompts
from kcurate.problem.techniques import names_technique
from kcurate.prompts import Answer, Earlier, Example, Material, Technique, Unreadable, plan_language
from kcurate.prompts.feedback import MAX_LOG_CHARS, MAX_LOG_LINES, trim_log
from kcurate.prompts.tasks import rules
from kcurate.records import AttemptOutcome, Environment, Language, Outcome, Speedup, Verdict

MATERIAL = Material("slow", "scale", "__global__ void k() {}", '{"plan": []}', '{"sizes": {}}')
UNROLL = Technique("loop-unrolling", "Loop bodies repeated.")
CODE = "__global__ void k(float *x)\n{\n    x[0] = 1;\n}\n"
PLAN = [{"launch": "k", "grid": [1], "block": [1], "args": ["x"]}]
VERDICT = Verdict("c", "key", Outcome.NOT_FASTER, Environment("cuda", "GPU"))


def test_what_repeats_comes_first_and_is_the_same_for_every_technique() -> None:
    one = prompts.build(MATERIAL, UNROLL)
    other = prompts.build(MATERIAL, Technique("warp-shuffle", "Exchange."), variant=2)
    assert (one.system, one.context) == (other.system, other.context)
    assert one.task != other.task
    assert "request number 2" in other.task


def test_each_direction_asks_for_its_side() -> None:
    slow = prompts.build(MATERIAL, UNROLL).task
    fast = prompts.build(replace(MATERIAL, makes="fast"), UNROLL).task
    assert "does not know this technique" in slow
    assert "Make this side faster with the technique" in fast
    assert "as fast as you can" in prompts.build(replace(MATERIAL, makes="fast"), None).task


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_the_rules_explain_every_key_that_the_schema_has_for_plans(language: Language) -> None:
    text = plan_language.plans(language)
    definitions = plan_language.definitions()
    for name in (*plan_language.STEPS[language], *plan_language.ARGUMENTS[language]):
        for key, part in definitions[name]["properties"].items():
            assert part["description"]
            assert (f'"{key}"' in text) or key in plan_language.OTHERS[language], (name, key)
    steps = {choice["$ref"].rpartition("/")[2] for choice in definitions["Step"]["oneOf"]}
    # A call is PyTorch; textures and structs of pointers are explained where a given plan has them.
    assert steps - set(plan_language.STEPS["cuda"]) == {"Call", "BindTexture"}
    given = [{"bind_texture": "t", "buffer": "x"}, {"launch": "k", "args": [{"pointers": [{"buffer": "x"}]}]}]
    assert [line[:15] for line in plan_language.explained(given)] == ['{"bind_texture"', '{"pointers": [{']


def test_words_that_name_a_technique_are_found() -> None:
    for words in (
        "Squared distances of all pairs by wgmma", "eigenvalues, by a warp each", "linear-split-k",
        "Two arrays made one along their merge path", "rows too wide for one block",
    ):  # fmt: skip
        assert names_technique(words), words
    for words in ("The sum of n numbers", "C = A*B^T of 64x64 blocks", "batched-gemm", "knapsack"):
        assert not names_technique(words), words


def test_triton_has_rules_and_a_form_of_its_own() -> None:
    module = replace(
        MATERIAL, makes="fast", code="@triton.jit\ndef k(): ...", language="triton", wants="triton"
    )
    same = prompts.build(module, None, earlier=Earlier("@triton.jit", None, "Wrong.", "triton"))
    assert same.system.startswith("You write Triton modules") and "one fenced ```python block" in same.system
    assert "Make this side as fast as you can" in same.task and "```python\n@triton.jit" in same.task
    other = prompts.build(replace(module, wants="cuda"), None)
    assert (
        other.system.startswith("You write CUDA device code") and "Write it as CUDA device code" in other.task
    )
    reply = f"```cuda\n{CODE}```\n```python\nimport triton\n@triton.jit\ndef k(): ...\n```\n"
    assert prompts.read_reply(reply, "text") == Answer(CODE)
    found = prompts.read_reply(reply, "text", "triton")
    assert isinstance(found, Answer) and found.code.startswith("import triton")


def test_where_the_language_is_open_both_are_explained() -> None:
    """Rules, launches and steps of CUDA and of Triton, each once, and one form of answer."""
    prompt = prompts.in_any_language(replace(MATERIAL, makes="fast"))
    for language in ("cuda", "triton"):
        said = rules(cast(Language, language)).replace(plan_language.plans(cast(Language, language)), "")
        for line in said.splitlines():
            if line.startswith("- ") and not line.startswith(("- The given plan", "- It computes")):
                assert prompt.system.count(line) == 1, line
        assert plan_language.form("Launch", cast(Language, language)) in prompt.system
    assert "one fenced ```cuda block, or one fenced ```python block" in prompt.system
    assert "always" not in prompt.task and "in CUDA or in Triton" in prompt.task


def test_words_and_a_module_stand_as_text_before_the_problem() -> None:
    material = replace(
        MATERIAL, family="", statement="Compute y = 2 x.", module="As PyTorch:\n```python\nM\n```\n"
    )
    context = prompts.build(material, None).context
    assert context.startswith("Compute y = 2 x.\n\nAs PyTorch:\n```python\nM\n```\n\nProblem:\n")


def test_an_earlier_answer_is_shown_with_what_was_found() -> None:
    earlier = Earlier("the code of before", '{"plan": [1]}', "It does not compile.")
    task = prompts.build(MATERIAL, UNROLL, action="repair", earlier=earlier).task
    assert "the code of before" in task
    assert '{"plan": [1]}' in task
    assert task.rstrip().endswith("It does not compile.")
    lost = prompts.build(MATERIAL, UNROLL, action="repair", earlier=Earlier("", None, "cut off")).task
    assert "could not be used at all" in lost
    assert "```cuda\n\n" not in lost


def test_examples_and_permitted_techniques_are_shown() -> None:
    example = Example("SLOW CODE", "FAST CODE", "loop-unrolling")
    task = prompts.build(MATERIAL, UNROLL, examples=[example], permitted=["warp-vote"]).task
    assert task.index("FAST CODE") < task.index("SLOW CODE")  # in the direction that is asked for
    assert "may use: warp-vote." in task
    assert "may use: none." in prompts.build(MATERIAL, UNROLL, permitted=[]).task
    long = Example("x" * 7000, "y", "loop-unrolling")
    assert "xxx" not in prompts.build(MATERIAL, UNROLL, examples=[long]).task


def test_a_chat_has_all_of_a_prompt() -> None:
    prompt = prompts.build(MATERIAL, UNROLL)
    system, user = prompts.chat(prompt)
    assert system == {"role": "system", "content": prompt.system}
    assert user["content"] == f"{prompt.context}\n{prompt.task}"


buffers = st.none() | st.just({"t": {"dtype": "float32", "shape": ["n"]}})


@given(code=st.text(alphabet="ab{};\n /*_`", max_size=40), plan=st.none() | st.just(PLAN), own=buffers)
def test_written_answers_are_read_back(code: str, plan: list[dict[str, object]] | None, own: object) -> None:
    body = ("__global__ " + code.replace("```", "")).rstrip()
    answer = Answer(body, plan, own if plan else None)  # type: ignore[arg-type]
    found = prompts.read_reply(prompts.write_answer(answer), "text")
    assert isinstance(found, Answer)
    assert (found.code.rstrip(), found.plan, found.buffers) == (body, answer.plan, answer.buffers)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"Sure.\n```cuda\n{CODE}```\nDone.", Answer(CODE)),
        (f"<think>```cuda\n__global__ bad\n```</think>```cpp\n{CODE}```", Answer(CODE)),
        (f"```json\n[]\n```\n```cuda\n__global__ open\n</think>```cuda\n{CODE}```", Answer(CODE)),
        (f"```cuda\n{CODE}```<think>no end", Answer(CODE)),
        (f"```\nno kernel\n```\n```c++\n{CODE}```", Answer(CODE)),
        (f"```cuda\n{CODE}```\n```json\n{json.dumps(PLAN)}\n```", Answer(CODE, PLAN)),
        (f"```cuda\n{CODE}```\n```json\n{json.dumps({'plan': PLAN})}\n```", Answer(CODE, PLAN)),
        (f"```cuda\n__global__ first\n```\nBetter:\n```cuda\n{CODE}```", Answer(CODE)),
        (f"```cuda\n{CODE}", Unreadable("no fenced block with a kernel in it")),
        (f"<think>so long ```cuda\n{CODE}```", Unreadable("no fenced block with a kernel in it")),
        (f"```cuda\n{CODE}```\n```json\n{{broken\n```", "the json block is not JSON"),
        (f'```cuda\n{CODE}```\n```json\n"text"\n```', "the launch is not a JSON object"),
        (f'```cuda\n{CODE}```\n```json\n{{"plan": {{}}}}\n```', "the plan is not a list of steps"),
        (f'```cuda\n{CODE}```\n```json\n{{"plan": []}}\n```', "the plan is not a list of steps"),
    ],
)
def test_text_replies(reply: str, expected: Answer | Unreadable | str) -> None:
    found = prompts.read_reply(reply, "text")
    if isinstance(expected, str):
        assert isinstance(found, Unreadable)
        assert expected in found.reason
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"code": CODE}, Answer(CODE)),
        ({"code": CODE, "plan": PLAN}, Answer(CODE, PLAN)),
        ({"code": CODE, "plan": json.dumps(PLAN)}, Answer(CODE, PLAN)),
        ({"code": CODE, "plan": "[broken"}, "not a list of steps"),
        ({"code": "  "}, "has no code"),
        ({"code": 3}, "has no code"),
        ([CODE], "has no code"),
        ({"code": CODE, "speed": 9}, "unknown part: speed"),
        ({"code": CODE, "buffers": []}, Answer(CODE)),
        ({"code": CODE, "buffers": [3]}, "buffers are not an object"),
    ],
)
def test_tool_replies(reply: object, expected: Answer | str) -> None:
    found = prompts.read_reply(json.dumps(reply), "tool")
    if isinstance(expected, str):
        assert isinstance(found, Unreadable)
        assert expected in found.reason
    else:
        assert found == expected


@given(st.text() | st.just("[" * 100_000) | st.just('{"code": ' * 5000))
def test_no_reply_makes_the_reader_fail(reply: str) -> None:
    for form in ("text", "tool"):
        assert isinstance(prompts.read_reply(reply, form), Answer | Unreadable)  # type: ignore[arg-type]
    fenced = f"```cuda\n{CODE}```\n```json\n{reply}\n```\n"
    assert isinstance(prompts.read_reply(fenced, "text"), Answer | Unreadable)


def test_feedback_names_the_ratio_and_the_wanted_way() -> None:
    verdict = replace(VERDICT, speedup=Speedup(1.004, 0.99, 1.02, 0.98, 20, 0.02), detail="within noise")
    slow = prompts.feedback("slow", AttemptOutcome.JUDGED, verdict=verdict)
    assert "the slow side is not slower than the given one: within noise." in slow
    assert "1.004 (0.990 to 1.020)" in slow
    assert "not faster" in prompts.feedback("fast", AttemptOutcome.JUDGED, verdict=verdict)


@pytest.mark.parametrize("outcome", list(AttemptOutcome))
def test_every_outcome_has_words(outcome: AttemptOutcome) -> None:
    assert len(prompts.feedback("slow", outcome, "because")) > 20


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_verdict_has_words(outcome: Outcome) -> None:
    text = prompts.feedback("slow", AttemptOutcome.JUDGED, verdict=replace(VERDICT, outcome=outcome))
    assert len(text) > 10


def test_a_fault_of_the_given_side_is_told_apart() -> None:
    verdict = replace(VERDICT, outcome=Outcome.LAUNCH_ERROR, side="fast")
    assert "in the side that was given" in prompts.feedback("slow", AttemptOutcome.JUDGED, verdict=verdict)


def test_feedback_says_nothing_twice() -> None:
    verdict = replace(
        VERDICT, outcome=Outcome.MALFORMED, side="slow", detail="9 arguments", log="9 arguments\n"
    )
    text = prompts.feedback("slow", AttemptOutcome.JUDGED, verdict=verdict)
    assert text.count("9 arguments") == 1 and "```" not in text


def test_logs_are_cut_to_their_errors_and_name_no_host_path() -> None:
    noise = [f"note {i}" for i in range(500)]
    log = "\n".join([*noise[:400], "/home/me/x.cu(3): error: no such thing", "   y = z;", *noise[400:]])
    cut = trim_log(log)
    assert "<file>(3): error: no such thing\n   y = z;" in cut
    assert "/home" not in cut
    assert cut.count("\n") <= MAX_LOG_LINES + 2
    assert len(trim_log("error " * 10_000)) < MAX_LOG_CHARS + 20
    assert trim_log("  \n") == ""


def test_reading_a_reply_takes_no_longer_than_its_length() -> None:
    started = time.perf_counter()
    for bad in ("```a b\n" * 50_000, "<think>" * 50_000, "```json\n" * 50_000):
        prompts.read_reply(bad, "text")
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("detail", "lead"),
    [
        ("k: an address 8 bytes past the end of an allocation of 64 bytes", "accesses memory"),
        ("k: thread (0,0,0): an address outside shared memory", "accesses memory"),
        ("wrote outside the buffer 'y' (n=3; nominal inputs)", "accesses memory"),
        ("changed the input 'x' (n=3; nominal inputs)", "accesses memory"),
        ("y: 2 of 3 elements are wrong: [0] 1 instead of 2 (n=3; nominal inputs)", "results are wrong"),
    ],
)
def test_findings_tell_accesses_from_values(detail: str, lead: str) -> None:
    verdict = replace(VERDICT, outcome=Outcome.MISMATCH, detail=detail)
    assert lead in prompts.feedback("fast", AttemptOutcome.JUDGED, verdict=verdict).partition(":")[0]


def test_findings_name_no_addresses() -> None:
    detail = "k: the address 0x7fad403ff020, 112 bytes past the end of an allocation of 64 bytes"
    text = prompts.feedback("fast", AttemptOutcome.JUDGED, verdict=replace(VERDICT, detail=detail))
    assert "0x" not in text and "an address 112 bytes past the end of an allocation of 64 bytes" in text
