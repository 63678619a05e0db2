"""`kcurate eval`: models whose worth is known, steps one at a time, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from asked import COPY, WRONG, reply
from asked import task as scale
from deopt.models import server
from deopt.models.server import serving

from kcurate import prompts
from kcurate.cli import run as command
from kcurate.errors import InputError
from kcurate.evaluation import completions, scores, taught
from kcurate.evaluation.endpoint import Endpoint, TaskBench
from kcurate.evaluation.folder import EvalFolder, Evaluated
from kcurate.evaluation.judging import judge
from kcurate.evaluation.sampling import Reply, generate
from kcurate.evaluation.stage import EvalConfig, run, run_compare
from kcurate.models.conversation import Limits
from kcurate.models.naming import parse_model
from kcurate.models.opening import Spending, open_asking
from kcurate.prompts.replies import read_reply
from kcurate.records import Prompt
from kcurate.reward import pair_tasks, schemes
from kcurate.reward.pool import PoolConfig, RewardPool
from kcurate.reward.task import Task

ALL: dict[str, Any] = {"split": "all", "untimed": True, "brief": True}


class Known:
    """A model that returns what a rule says of the prompt's text."""

    def __init__(self, tasks: Sequence[Task], kind: str) -> None:
        self.by_prompt = {task.prompt.context: task for task in tasks}
        self.kind, self.random = kind, random.Random(0)
        self.prompts: list[str] = []

    def sample(self, asked: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        return [Reply(self.one(prompt)) for prompt, _ in asked]

    def one(self, prompt: Prompt) -> str:
        task, shown = self.by_prompt[prompt.context], prompts.chat(prompt)[1]["content"]
        self.prompts.append(shown)
        if self.kind == "random":
            return "".join(chr(self.random.randrange(32, 1000)) for _ in range(200))
        if self.kind == "copying":
            return prompts.write_answer(prompts.Answer(task.template.slow.code))
        if self.kind == "echoing":
            return shown
        return task.answer or "" if self.kind == "oracle" else self.kind


@pytest.fixture(scope="module")
def pool() -> Iterator[RewardPool]:
    config = PoolConfig(backend="emulator", jobs=1)
    with contextlib.closing(RewardPool(schemes.make("pairs"), config)) as made:
        yield made


@pytest.fixture(scope="module")
def tasks(pairs: Path) -> tuple[Task, ...]:
    return pair_tasks.load(str(pairs), brief=True, untimed=True)


@pytest.mark.parametrize(
    ("kind", "worth", "copied"), [("random", 0, 0), ("copying", 0, 1), ("echoing", 0, 1), ("oracle", 1, 0)]
)
def test_models_score_what_they_are_worth(
    tasks: Sequence[Task], pool: RewardPool, kind: str, worth: float, copied: float
) -> None:
    rows = generate(tasks[:2], Known(tasks, kind), samples=2)
    made = scores.score(kind, kind, judge(rows, tasks, pool)[0], timed=False)
    assert made.tasks == 2
    assert (made.correct["1"].value, made.correct["2"].value, made.copied.value) == (worth, worth, copied)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "worth"), [("random", 0), ("copying", 0), ("echoing", 0), ("oracle", 1)])
def test_models_score_what_they_are_worth_on_built_in_pairs(tmp_path: Path, kind: str, worth: float) -> None:
    tasks = pair_tasks.load(brief=True, untimed=True)
    settings = Evaluated(kind, samples=1, limit=12, **ALL)
    _, made = run(EvalConfig(tmp_path, settings, backend="emulator", sampler=Known(tasks, kind)))
    assert made is not None
    # The best answer to one of them has instructions that only a GPU runs: not judged, and not counted.
    beyond = made.outcomes.get("harness_error", 0)
    assert made.tasks + beyond == 12 and beyond <= (kind == "oracle")
    assert made.correct["1"].value == worth


def test_an_adapter_is_not_scored_on_what_it_was_taught(
    tasks: Sequence[Task], pairs: Path, tmp_path: Path
) -> None:
    first, other = (replace(tasks[0], id=name, family=name) for name in ("first", "other"))
    taught.write(tmp_path / "sft", [replace(scale(), family="elsewhere")], None)
    taught.write(tmp_path / "grpo", [first], tmp_path / "sft")
    known = taught.read(tmp_path / "grpo")
    assert known is not None and "first" not in (tmp_path / "grpo" / taught.NAME).read_text()
    assert known.among([first, other]) == [first, other], "the same task under another name"
    elsewhere = replace(scale(), family="elsewhere")
    assert known.among([elsewhere]) == [elsewhere], "what the first stage was taught"

    taught.write(tmp_path / "adapter", tasks[:1], None)
    asked = Evaluated("known", str(tmp_path / "adapter"), dataset=(str(pairs),), samples=1, **ALL)
    own = EvalConfig(tmp_path / "eval", asked, ("generate",), sampler=Known(tasks, "random"))
    with pytest.raises(InputError, match=r"was taught the families of \d of \d tasks"):
        run(own)
    marked = replace(own, evaluated=replace(asked, allow_taught=True))
    run(marked)
    rows = completions.read(EvalFolder(tmp_path / "eval").completions, hint="")
    families = {one.family for one in rows if one.taught}
    assert families == {tasks[0].family}
    judged = [replace(one, outcome="unreadable", reward=0.0) for one in rows]
    assert scores.score("known", "known", judged, timed=False).taught == sum(bool(one.taught) for one in rows)


@pytest.mark.parametrize(
    ("text", "earlier", "found"),
    [
        (COPY, "could not be used", "The answer is the code that was given"),
        (WRONG, "a + x[i]", "Its results are wrong"),
        (reply(), "It is right, but", "Its results are right"),
    ],
)
def test_a_second_turn_sees_the_answer_before_and_what_was_found(
    pool: RewardPool, text: str, earlier: str, found: str
) -> None:
    model = Known([scale()], text)
    first, second = generate([scale()], model, samples=1, turns=2, pool=pool)
    assert (first.turn, second.turn) == (1, 2) and first.prompt_sha256 != second.prompt_sha256
    assert model.prompts[1].startswith(model.prompts[0])
    assert earlier in model.prompts[1] and found in model.prompts[1]


def test_a_model_in_this_process_samples_as_grpo_does(model: Path, tasks: Sequence[Task]) -> None:
    from kcurate.evaluation.local_model import LocalModel, SamplingOptions
    from kcurate.local_models.settings import ModelSettings

    own = LocalModel(ModelSettings(str(model)), None, SamplingOptions(8, temperature=0.7))
    given = own.arguments()
    assert (given["temperature"], given["top_p"], given["top_k"], given["repetition_penalty"]) == (
        0.7,
        1,
        0,
        1,
    )
    endless = replace(tasks[0].prompt, task="x " * 5000)
    cut, refused = own.sample([(tasks[0].prompt, 0), (endless, 0)])
    assert (cut.status, cut.output_tokens) == ("truncated", 8)
    assert (refused.status, refused.text) == ("rejected", "")
    own.close()


@pytest.mark.parametrize(("count", "parts"), [(266, [266]), (10, [10]), (600, [300, 300]), (0, [])])
def test_prompts_are_sampled_in_equal_parts(count: int, parts: list[int]) -> None:
    from kcurate.evaluation.local_model import batches

    found = list(batches(range(count), 256))
    assert [len(part) for part in found] == parts
    assert [i for part in found for i in part] == list(range(count))


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def words(url: str, pairs: Path, *more: str) -> list[str]:
    return [
        "eval", *more, "--model", f"openai:qwen@{url}/v1", "--dataset", str(pairs), "--split", "all",
        "--untimed", "--brief", "--limit", "2", "--samples", "2", "--backend", "emulator", "-j", "1",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("answering")
def test_three_steps_with_files_between_them_from_an_endpoint(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with serving(server.completion(COPY)) as (url, script):
        sampling = ("--temperature", "0.5", "--price", "1,10")
        assert command(words(url, pairs, "generate", "--out", str(out), *sampling)) == 0
        assert len(script.asked) == 4 and script.asked[0]["temperature"] == 0.5
        assert command(words(url, pairs, "generate", "--out", str(out), *sampling)) == 0
        assert len(script.asked) == 4, "what is there is kept"
    rows = completions.read(EvalFolder(out).completions, hint="")
    assert {row.outcome for row in rows} == {None} and {row.output_tokens for row in rows} == {60}
    assert command(["eval", "score", str(out)]) == 1
    assert "run kcurate eval judge" in capsys.readouterr().err
    assert command(["eval", "judge", str(out), "--backend", "emulator", "-j", "1"]) == 0
    capsys.readouterr()
    assert command(["eval", "score", str(out), "--row", "qwen", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sum(printed["counts"]["completions"].values()) == 4 and "not judged" not in printed["counts"]
    assert printed["scores"]["name"] == "qwen" and printed["scores"]["usd"] > 0
    assert command(["eval", "score", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "any of 2" in shown and "no intervals below 10 families" in shown
    plot = tmp_path / "plot.svg"
    assert command(["eval", "compare", str(out), str(out), "--plot", str(plot)]) == 0
    assert plot.read_text(encoding="utf-8").startswith("<svg")
    assert "2 tasks of 2 families in both" in capsys.readouterr().out


@pytest.mark.parametrize("claude", [True, False])
def test_the_turns_of_an_endpoint_are_one_conversation(
    pool: RewardPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claude: bool
) -> None:
    """And Claude, which may think, is asked for the text that it is told to answer with."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def act(handler: server.Handler, body: dict[str, Any]) -> None:
        text = WRONG if len(body["messages"]) < 3 else reply()
        answered = server.message(text=text, stop="end_turn", thinking="Hm.")
        (answered if claude else server.completion(text))(handler, body)

    with serving(act) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        name = parse_model("claude" if claude else f"openai:m@{url}/v1")
        for _ in range(2):  # the second time from the transcripts
            asking = open_asking(name, tmp_path, Spending(), options={"effort": "low"})
            with contextlib.closing(asking.client):
                rows = generate([scale()], Endpoint(asking, 2), samples=2, turns=2, pool=pool)
    assert len(script.asked) == 4
    later = [body for body in script.asked if len(body["messages"]) > 2]
    roles = [entry["role"] for entry in later[0]["messages"]]
    assert roles[-3:] == ["user", "assistant", "user"]
    assert "Its results are wrong" in str(later[0]["messages"][-1]["content"])
    if claude:
        assert "tools" not in later[0] and later[0]["thinking"] == {"type": "adaptive"}
        assert later[0]["messages"][1]["content"][0]["type"] == "thinking"
    first, second = (row for row in rows if row.sample == 0)
    assert json.loads(second.prompt)[-2] == {"role": "assistant", "content": first.reply}


def test_claude_may_have_tools_for_each_answer(
    pool: RewardPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    answers = [vars(read_reply(text, "text")) for text in (WRONG, reply())]
    sides = [{name: part for name, part in answer.items() if part is not None} for answer in answers]
    calls = [
        ("compile", sides[0]),
        ("submit_version", {"version": 1}),
        ("compile", sides[1]),
        ("run_tests", {"version": 2}),
        ("time", {"version": 2}),
        ("submit_version", {"version": 2}),
    ]
    actions = [server.message(tool=given, name=name, call=f"c{n}") for n, (name, given) in enumerate(calls)]
    task = scale()
    with serving(*actions) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        asking = open_asking(parse_model("claude"), tmp_path, Spending())
        with contextlib.closing(asking.client):
            model = Endpoint(asking, 1)
            model.benches, model.limits = {task.prompt.context: TaskBench(task, pool)}, Limits(4)
            rows = generate([task], model, samples=1, turns=2, pool=pool)
    assert "one fenced" not in script.asked[0]["system"][0]["text"]
    assert "profile" not in {tool["name"] for tool in script.asked[0]["tools"]}
    said = list(map(server.said, script.asked))
    assert said[1].startswith("Version 1 compiles.\n(3 calls")
    assert "Its results are wrong" in said[2] and said[4].startswith("All tests pass")
    assert [(row.form, json.loads(row.reply)) for row in rows] == [("tool", side) for side in sides]
    assert [row.output_tokens for row in rows] == [100, 200]
    assert [row.outcome for row in judge(rows, [task], pool)[0]] == ["mismatch", "correct"]


@pytest.mark.usefixtures("answering")
def test_an_endpoint_that_fails_loses_no_answer(pairs: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    with serving(server.completion(reply()), server.status(401)) as (url, script):
        assert command(words(url, pairs, "generate", "--out", out, "--concurrency", "1")) != 0
    with serving(server.completion(reply())) as (again, script):
        # The address is not part of what is asked, so the first answer is on file.
        text = json.loads((tmp_path / "run" / "eval.json").read_text())
        text["evaluated"]["model"] = f"openai:qwen@{again}/v1"
        (tmp_path / "run" / "eval.json").write_text(json.dumps(text))
        assert command(words(again, pairs, "generate", "--out", out)) == 0
        assert len(script.asked) == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("generate",), "which model?"),
        (("judge",), "which evaluation?"),
        (("compare", "a"), "1 folders"),
        (("judge", "{empty}"), "no evaluation here"),
        (("--model", "/no/such/model"), "no such folder"),
        (("--model", "m", "--tasks", "puzzles"), "no tasks 'puzzles'"),
        (("--model", "m", "--temperature", "-1"), "--temperature"),
        (("--model", "m", "--tool-calls", "2"), "only Claude has tools"),
        (("--model", "m", "--reward", "most"), "unknown reward 'most'"),
        (("--model", "claude", "--adapter", "x"), "an adapter needs a model in this process"),
        (("--model", "openai:m@http://localhost:1/v1", "--max-usd", "1"), "no price is known"),
        (("--model", "m", "--held-out", "1"), "not a share of the tasks"),
    ],
)
def test_bad_input_is_one_line(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: Sequence[str], said: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [text.replace("{empty}", str(empty)) for text in more]
    begins = given[0] not in ("judge", "compare")
    out = ("--out", str(tmp_path / "out"), "--dataset", str(pairs), "--untimed") if begins else ()
    other = ("no evaluation here", "no such folder", "no price is known")
    code = 1 if said.startswith(other) else 2
    assert command(["eval", *given, *out, "--backend", "emulator"]) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert said in errors[0]


def test_a_folder_keeps_its_evaluation_and_its_tasks(
    pairs: Path, tasks: Sequence[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Evaluated("oracle", dataset=(str(pairs),), **ALL)
    config = EvalConfig(tmp_path, settings, ("generate",), backend="emulator", sampler=Known(tasks, "oracle"))
    run(config)
    assert command(["eval", "--model", "other", "--out", str(tmp_path)]) == 1
    assert "another evaluation is here" in capsys.readouterr().err
    path = EvalFolder(tmp_path).completions
    rows = completions.read(path, hint="")
    for change, said in (({"given": "x"}, "has changed since it was asked"), ({"task": "x"}, "no such task")):
        completions.write(path, [replace(rows[0], **change)])  # type: ignore[arg-type]
        assert command(["eval", "judge", str(tmp_path), "--backend", "emulator"]) == 1
        assert said in capsys.readouterr().err


def test_a_reward_that_a_folder_names_is_imported_only_if_it_is_named_again(
    pairs: Path,
    tasks: Sequence[Task],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder may be somebody else's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "reward_of_a_folder.py").write_text(
        "open('imported', 'w').close()\ndef flat(group): return [0.5 for _ in group]\n"
    )
    settings = Evaluated("copying", dataset=(str(pairs),), samples=1, **ALL)
    run(EvalConfig(tmp_path / "a", settings, ("generate",), backend="emulator", sampler=Known(tasks, "none")))
    path = EvalFolder(tmp_path / "a").about
    text = json.loads(path.read_text())
    text["evaluated"]["reward"] = "reward_of_a_folder:flat"
    path.write_text(json.dumps(text))
    assert command(["eval", "judge", "a", "--backend", "emulator"]) == 1
    assert "--reward reward_of_a_folder:flat if you trust it" in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()
    named = ("--reward", "reward_of_a_folder:flat")
    assert command(["eval", "judge", "a", "--backend", "emulator", *named]) == 0
    assert {one.reward for one in EvalFolder(tmp_path / "a").read_judged()} == {0.5}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"device": "NVIDIA H200"}, "timed on different GPUs: NVIDIA H100 and NVIDIA H200"),
        ({"timed": False}, "one was timed on a GPU and the other was not"),
        ({"evaluated": asdict(Evaluated("m", protocol="kernelbench"))}, "judged by different protocols"),
    ],
)
def test_evaluations_that_measured_different_things_are_not_compared(
    tasks: Sequence[Task], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    rows = generate(tasks[:1], Known(tasks, "none"), samples=1)
    about = {"evaluated": asdict(Evaluated("m")), "timed": True, "device": "NVIDIA H100"}
    for name, given in (("a", about), ("b", about | change)):
        folder = EvalFolder(tmp_path / name)
        completions.write(folder.judged, [replace(one, outcome="mismatch") for one in rows])
        folder.about.write_text(json.dumps(given))
    assert run_compare(tmp_path / "a", tmp_path / "a").tasks == 1
    with pytest.raises(InputError, match=said):
        run_compare(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_way_of_sampling_samples_the_same(model: Path, pairs: Path, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from tiny import tasks

    from kcurate.evaluation.local_model import LocalModel, SamplingOptions
    from kcurate.local_models import weights
    from kcurate.local_models.settings import ModelSettings

    torch.manual_seed(3)
    name = str(model)
    lora = LoraConfig(
        r=8, lora_alpha=64, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"
    )
    made = get_peft_model(weights.load_model(ModelSettings(name), trainable=True), lora)
    made.save_pretrained(tmp_path / "adapter")
    asked = [(task.prompt, 0) for task in tasks(pairs)[:3]]
    found = {}
    for merged in (False, True):
        for way in ("plain", "static", "continuous"):
            settings = ModelSettings(name, sampling=way, merged=merged)  # type: ignore[arg-type]
            sampler = LocalModel(
                settings, tmp_path / "adapter", SamplingOptions(24, temperature=1e-4, batch=2)
            )
            found[way, merged] = [(one.text, one.output_tokens, one.status) for one in sampler.sample(asked)]
            assert hasattr(sampler._model, "merge_and_unload") != merged
            sampler.close()
    base = LocalModel(ModelSettings(name), None, SamplingOptions(24, temperature=1e-4)).sample(asked)
    assert [one.text for one in base] != [text for text, _, _ in found["plain", False]], "the adapter counts"
    assert all(one == found["plain", False] for one in found.values())
