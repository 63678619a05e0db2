"""The built-in dataset: rules that hold for every answer, prompts that stand once, splits without leaks."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dataset import row_rules
from dataset.telling import told

from kcurate.core import resources, store
from kcurate.core.headers import IN_SIDES
from kcurate.core.store import read_jsonl
from kcurate.cuda_source import kernel_signatures
from kcurate.cuda_source.compare.similarity import is_name
from kcurate.cuda_source.text.normalise import normalised_tokens
from kcurate.dataset import parquet, repairs
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.hub.published_rows import candidate_of, read_rows
from kcurate.judge.checks.static import check_source, hints
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.problem.techniques import names_technique
from kcurate.profiling import on_file
from kcurate.prompts import Answer
from kcurate.prompts.plan_language import plans
from kcurate.prompts.replies import read_reply
from kcurate.prompts.tasks import (
    BRIEF_RULES,
    system,
)
from kcurate.prompts.tools import JUDGE
from kcurate.records import Candidate, Launch, Side, WrongAttempt, steps
from kcurate.triton_source import bare_python

Check = Callable[["Row", Answer, Side], object]


@dataclass(frozen=True)
class Row:
    """A row of `sft`, with its pair."""

    split: str
    pair: Candidate
    prompt: list[dict[str, str]]
    answer: str


def one_file(row: Row, answer: Answer, side: Side) -> object:
    blocks = re.findall(r"^```(\w+)$", row.answer, re.MULTILINE)
    fence = {"cuda": "cuda", "triton": "python"}[side.language]
    return blocks != ([fence] if answer.plan is None else [fence, "json"]) and blocks


def plan_only_where_it_changes(row: Row, answer: Answer, side: Side) -> object:
    given = row.pair.slow
    return answer.plan is not None and (side.plan, side.buffers) == (given.plan, given.buffers)


def static_findings(row: Row, answer: Answer, side: Side) -> object:
    return check_source(side)


def includes(row: Row, answer: Answer, side: Side) -> object:
    return set(re.findall(r"#\s*include\s*[<\"]([^>\"]+)", side.code)) - IN_SIDES


def launched_kernels_fit(row: Row, answer: Answer, side: Side) -> object:
    signatures = {
        name.split("::")[-1]: len(params) for name, params in kernel_signatures(side.code.encode()).items()
    }
    launches = [step for step in steps(side.plan) if isinstance(step, Launch)]
    return [step.launch for step in launches if signatures.get(step.launch.split("::")[-1]) != len(step.args)]


def scratch_has_dtype_and_shape(row: Row, answer: Answer, side: Side) -> object:
    return [name for name, one in (answer.buffers or {}).items() if not {"dtype", "shape"} <= set(one)]


def no_comments(row: Row, answer: Answer, side: Side) -> object:
    return answer.code.strip() != shown.shown_code(answer.code).strip()


def no_telling_name(row: Row, answer: Answer, side: Side) -> object:
    return hints(side)


def no_host_code(row: Row, answer: Answer, side: Side) -> object:
    return re.findall(
        r"<<<|\bmain\s*\(|\bcuda(?:Malloc|Memcpy|Free)\w*\s*\(|#\s*include\s*<(?:iostream|stdio)", side.code
    )


def no_forbidden_calls(row: Row, answer: Answer, side: Side) -> object:
    return re.findall(r"\b(?:printf|malloc|clock\w*|__nanosleep|globaltimer)\s*\(", side.code)


# How a sentence is checked; `()`: it was checked when the pair was judged, or it permits and forbids nothing.
CHECKED: dict[str, tuple[Check, ...]] = {
    "You write CUDA device code (C++17, one file": (one_file,),
    "A computation is given": (),
    "Buffers are dense": (),
    '"test" sizes are checked': (),
    "You write the other side": (),
    "What counts": (),
    "It computes the same for all sizes": (),
    "Outputs are compared element by element": (),
    "Device code only": (no_host_code, static_findings),
    "No host code, no main, no inputs": (no_host_code, static_findings),
    "Includes only of CUDA device headers": (includes,),
    "No printf, malloc, clocks, sleeps, or state": (no_forbidden_calls, static_findings),
    "What the GPU's own architecture has may be used": (),
    "Each asm statement is plain string literals": (static_findings,),
    "The given plan launches your code as well": (launched_kernels_fit,),
    "Where names, parameters, grids, blocks or buffers": (launched_kernels_fit, plan_only_where_it_changes),
    "No comments": (no_comments,),
    "Names say what a thing is": (no_telling_name,),
    "Comments say what the code does not": (),
    "Answer in three parts": (),
    "A paragraph that begins with": (),
    "One that begins with": (),
    "Then comes one fenced": (one_file, plan_only_where_it_changes),
    "Answer with one fenced": (one_file, plan_only_where_it_changes),
    "You write a side": (),
    "It computes what the reference computes": (),
    "A side of it is code": (),
    "The plan uses the problem's buffers": (),
    "You rewrite CUDA device code": (),
    "Given: a problem": (),
    "Write the other side: the same results": (),
    "The plan launches your code as well": (launched_kernels_fit,),
    "Device code only: no host code, no comments": (no_host_code, no_comments, no_forbidden_calls),
}


def sentences(rules: str) -> list[str]:
    text = " ".join(rules.replace("\n- ", ". ").split())
    return [
        one.strip(" .:")
        for one in re.split(r"(?<=[.:])\s+(?=[A-Z])|\.\s+(?=[A-Z])", text)
        if one.strip(" .:")
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        *sentences(system().replace(plans("cuda"), "")),
        *sentences(BRIEF_RULES),
        *sentences(system(kind="write").replace(plans("cuda"), "")),
        *sentences(system(kind="explain").replace(plans("cuda"), "")),
    ],
)
def test_every_sentence_of_the_rules_is_accounted_for(sentence: str) -> None:
    assert [start for start in CHECKED if sentence.startswith(start)], sentence


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("work")
    build(BuildConfig(work, built_in=True))
    return work / "dataset"


@pytest.mark.slow
def test_the_test_split_is_a_fifth_or_so(dataset: Path) -> None:
    counts = {split: len(rows) for split, rows in read_rows(dataset).items()}
    assert 0.15 <= counts["test"] / sum(counts.values()) <= 0.25


@pytest.fixture(scope="module")
def rows(dataset: Path) -> list[Row]:
    pairs = {one["id"]: one for some in read_rows(dataset).values() for one in some}
    found = [
        Row(split, candidate_of(pairs[one["id"]]), one["prompt"], one["completion"][0]["content"])
        for split, some in read_rows(dataset, "sft").items()
        for one in some
    ]
    assert len(found) > 100
    return found


@pytest.mark.slow
def test_datasets_loads_every_config(dataset: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    there = [name for name in parquet.CONFIGS if (dataset / name).is_dir()]
    profiled = any(on_file.shipped().glob("*.jsonl"))
    assert set(parquet.CONFIGS) - set(there) == (set() if profiled else {"profiles"})
    for name in there:
        loaded = load_dataset(str(dataset), name, cache_dir=str(tmp_path))
        assert set(loaded) == {"train", "test"} and all(map(len, loaded.values()))


@pytest.mark.slow
def test_the_card_loads_and_shows_a_row(dataset: Path, rows: list[Row], tmp_path: Path) -> None:
    text = (dataset / "README.md").read_text()
    snippet, _ = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    code = snippet.replace("USER/NAME", str(dataset))
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "You write CUDA device code" in shown.stdout
    prompt, completion = re.findall(r"^~~~text\n(.*?)\n~~~$", text, re.MULTILINE | re.DOTALL)
    assert (prompt, completion) in [(row.prompt[1]["content"].rstrip(), row.answer.rstrip()) for row in rows]


@pytest.mark.slow
def test_a_prompt_stands_once_and_names_its_gpu(rows: list[Row]) -> None:
    prompts = [
        re.sub(r"^GPU: .*\n(Target: .*\n)?\n", "", row.prompt[1]["content"], flags=re.MULTILINE)
        for row in rows
    ]
    assert len(set(prompts)) == len(prompts)
    for row in rows:
        (gpu,) = re.findall(r"^GPU: (.*)$", row.prompt[1]["content"], re.MULTILINE)
        # The H200's verdict stands where there is one.
        judged = resources.pairs_dir() / row.pair.id / "verdicts/nvidia-h200.json"
        assert gpu == f"NVIDIA {'H200' if judged.exists() else 'H100 80GB HBM3'} (compute capability 9.0)"


@pytest.fixture(scope="module")
def answered(rows: list[Row]) -> list[tuple[Row, Answer, Side]]:
    """Each row with what its answer is read as."""
    found = []
    for row in rows:
        assert row.pair.problem is not None
        language = row.pair.fast.language
        answer = read_reply(row.answer, "text", language)
        assert isinstance(answer, Answer)
        side = side_of(answer, row.pair.slow, row.pair.problem, language)
        assert isinstance(side, Side)
        assert ("You write Triton modules" in row.prompt[0]["content"]) == (language == "triton")
        found.append((row, answer, side))
    return found


@pytest.mark.parametrize("check", sorted({one for some in CHECKED.values() for one in some}, key=str))
@pytest.mark.slow
def test_every_answer_keeps_the_rules(answered: list[tuple[Row, Answer, Side]], check: Check) -> None:
    of_cuda = check not in (one_file, plan_only_where_it_changes, static_findings)
    broken = {
        row.pair.id: found
        for row, answer, side in answered
        if not (of_cuda and side.language == "triton") and (found := check(row, answer, side))
    }
    assert not broken
    assert {side.language for _, _, side in answered} == {"cuda", "triton"}


@pytest.mark.slow
def test_what_holds_for_every_row(dataset: Path) -> None:
    row_rules.check(dataset)


@pytest.mark.slow
def test_words_for_a_first_side_name_no_technique_and_come_with_a_reference(dataset: Path) -> None:
    rows = [row for some in read_rows(dataset, "write").values() for row in some]
    assert len(rows) > 200
    for row in rows:
        text = row["prompt"][1]["content"]
        words = text.partition("GPU:")[0]
        assert not names_technique(words.replace("Computation:", "")), row["id"]
        assert "Reference plan:\n```json" in text and " of the reference:\n```" in text


def causes(pairs: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """The techniques that gain 5% or more by an ablation, or by a rung that lacks nothing else."""
    known = {
        name: {each["technique"] for each in row["worth"] if each["ratio"] >= 1.05}
        for name, row in pairs.items()
    }
    same = ("slow_code", "slow_side", "problem", "device", "fast_language")
    for name, row in pairs.items():
        for other in pairs.values():
            if [row[key] for key in same] == [other[key] for key in same]:
                added = set(row["techniques"]) - set(other["techniques"])
                fewer = set(other["techniques"]) < set(row["techniques"])
                if fewer and len(added) == 1 and row["speedup_low"] >= 1.05 * other["speedup_high"]:
                    known[name] |= added
    return known


@pytest.mark.slow
def test_every_explained_answer_is_that_of_sft_and_tells_what_was_measured(dataset: Path) -> None:
    """Sentence by sentence; what an answer's code does is checked on the answers of `sft`."""
    pairs = {one["id"]: one for some in read_rows(dataset).values() for one in some}
    plain = {one["id"]: one for some in read_rows(dataset, "sft").values() for one in some}
    rows = [one for some in read_rows(dataset, "explained").values() for one in some]
    profiles = on_file.read(None)
    assert {one["id"] for one in rows} <= set(plain) and 100 < len(rows) < len(plain)
    known = causes(pairs)
    with_comments, kinds = 0, Counter[str]()
    for one in rows:
        language = pairs[one["id"]]["fast_language"]
        answers = [
            read_reply(each["completion"][0]["content"], "text", language) for each in (one, plain[one["id"]])
        ]
        assert isinstance(answers[0], Answer) and isinstance(answers[1], Answer)
        bare = shown.shown_code if language == "cuda" else bare_python
        assert bare(answers[0].code).strip() == answers[1].code.strip()
        assert (answers[0].plan, answers[0].buffers) == (answers[1].plan, answers[1].buffers)
        with_comments += answers[0].code.strip() != answers[1].code.strip()
        given, asked = (each["prompt"][1]["content"].split("\n") for each in (plain[one["id"]], one))
        assert [line for line in asked if line and line in given] == [line for line in given if line]
        assert one["prompt"][0]["content"] == system(pairs[one["id"]]["fast_language"], "explain")
        original = store.read_candidate(resources.pairs_dir() / one["id"])
        sides = profiles.by_device(original).get(one["device"], {})
        both = (sides["slow"], sides["fast"]) if len(sides) == 2 else None
        assert one["counted"] == (both is not None)
        text = "\n".join(asked[asked.index("Measured:") :])
        published = candidate_of(pairs[one["id"]])
        facts = told(
            one["completion"][0]["content"], pairs[one["id"]], published, both, known[one["id"]], text
        )
        kinds.update(fact.kind for fact in facts)
    assert with_comments > len(rows) / 2
    assert kinds["time"] == len(rows) and kinds["technique"] >= len(rows) and kinds["launches"]


@pytest.mark.slow
def test_a_first_side_is_the_fastest_known_of_its_problem(dataset: Path) -> None:
    pairs = {one["id"]: one for some in read_rows(dataset).values() for one in some}
    found = [one for some in read_rows(dataset, "write").values() for one in some]
    fastest: dict[tuple[str, str], float] = {}
    # Without a given side in the plain layout there is nothing that says what to compute.
    plain = {(one["family"], one["problem"]) for one in pairs.values() if not candidate_of(one).slow.views}
    for one in pairs.values():
        if one["fast_language"] != "cuda" or (one["family"], one["problem"]) not in plain:
            continue
        place = one["family"], one["problem"]
        fastest[place] = min(fastest.get(place, math.inf), one["fast_us"])
    assert {(pairs[one["id"]]["family"], pairs[one["id"]]["problem"]): one["us"] for one in found} == fastest
    for one in found:
        candidate = candidate_of(pairs[one["id"]])
        words = one["prompt"][1]["content"].partition("GPU:")[0]
        assert candidate.problem is not None and not re.search(r"\b(slow|fast|naive|other) side", words)
        answer = read_reply(one["completion"][0]["content"], "text")
        assert isinstance(answer, Answer)
        side = side_of(answer, replace(candidate.slow, views={}), candidate.problem)
        assert isinstance(side, Side)
        assert replace(side, nondeterministic=candidate.fast.nondeterministic) == candidate.fast


@pytest.mark.slow
def test_attempts_are_calls_of_the_tool_that_training_has(dataset: Path) -> None:
    """The same conversations, as chat templates and TRL take them."""
    plain = {row["content"]: row["messages"] for row in row_rules.rows_of(dataset, "trajectories")}
    rows = row_rules.rows_of(dataset, "tool_trajectories")
    assert len(rows) == len(row_rules.rows_of(dataset, "trajectories")) > 300
    for row in rows:
        assert json.loads(row["tools"]) == [JUDGE]
        roles = [message["role"] for message in row["messages"]]
        assert roles == ["system", "user", *["assistant", "tool"] * (row["attempts"] - 1), "assistant"]
        for call, result in itertools.pairwise(row["messages"][2:-1]):
            if call["role"] == "assistant":
                assert call["tool_calls"][0]["id"] == result["tool_call_id"] and result["name"] == "judge"
        answers = [
            (message["tool_calls"] or [{"function": {"arguments": {"answer": message["content"]}}}])[0]
            for message in row["messages"]
            if message["role"] == "assistant"
        ]
        texts = [call["function"]["arguments"]["answer"] for call in answers]
        said = [message["content"] for message in plain[row["content"]] if message["role"] == "assistant"]
        assert texts[-1] == said[-1] and len(texts) == row["attempts"]


@pytest.mark.slow
def test_attempts_end_with_the_known_answer_and_the_judges_words_stand_between(dataset: Path) -> None:
    plain = {one["id"]: one for some in read_rows(dataset, "sft").values() for one in some}
    rows = [one for some in read_rows(dataset, "trajectories").values() for one in some]
    assert len(rows) > 300 and {one["attempts"] for one in rows} >= {2, 3}
    climbs = 0
    for one in rows:
        roles = [message["role"] for message in one["messages"]]
        assert roles == ["system", *["user", "assistant"] * one["attempts"]]
        answers, words = one["messages"][2::2], one["messages"][3::2]
        assert len({message["content"] for message in answers}) == one["attempts"]
        assert answers[-1]["content"] == plain[one["id"]]["completion"][0]["content"]
        assert all(message["content"].startswith("What was found:\n") for message in words)
        climbs += "Measured: time of the slow side over" in words[0]["content"]
    assert climbs > 20


@pytest.mark.slow
def test_facts_of_wrong_answers_still_hold(dataset: Path) -> None:
    """A fact of changed code would be left out without a word."""
    known = list(read_jsonl(repairs.facts(), WrongAttempt))
    pairs = {one["id"]: candidate_of(one) for some in read_rows(dataset).values() for one in some}
    assert not [one for one in known if one.pair in pairs and repairs.reapplied(pairs[one.pair], one) is None]
    rows = [one for some in read_rows(dataset, "repair").values() for one in some]
    assert len(rows) >= 400 and sum(one["change"].startswith(repairs.MODEL) for one in rows) > 50
    of_the_plan = {"missing_argument", "unknown_kernel", "half_the_grid"}
    told = [one for one in rows if one["completion"][0]["content"] in one["prompt"][1]["content"]]
    assert {one["change"] for one in told} <= of_the_plan
    for one in rows:
        text = one["prompt"][1]["content"]
        found = text.rpartition("What was found:")[2]
        by_model = one["change"].startswith(repairs.MODEL)  # which may well have called printf
        tells = r"address 0x" if by_model else r"address 0x|printf|sync\w*_all\b"
        assert not re.search(tells, found), one["id"]
        assert ("\nGPU: any, judged on an emulator" in text) == (one["wrong_device"] == "emulator")


def runs(code: str, length: int) -> Counter[tuple[object, ...]]:
    """Runs of tokens with names numbered by first occurrence in a run."""
    tokens = normalised_tokens(code.encode())
    named = [is_name(tokens, at) for at in range(len(tokens))]
    found: Counter[tuple[object, ...]] = Counter()
    for at in range(len(tokens) - length + 1):
        numbers: dict[bytes, int] = {}
        found[
            tuple(
                numbers.setdefault(tokens[i], len(numbers)) if named[i] else tokens[i]
                for i in range(at, at + length)
            )
        ] += 1
    return found


def functions(code: str) -> list[str]:
    """The functions at file scope, from what follows the last declaration or directive to the last brace."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"[{};]|^[ \t]*#(?:\\\n|.)*", code, re.MULTILINE):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "{" and depth == 1:
            head = code[start : match.start()].rstrip()
        if depth == 0:
            if match[0] == "}" and head.endswith(")"):
                found.append(code[start : match.end()])
            start = match.end()
    return found


@pytest.mark.slow
def test_no_function_of_a_test_answer_stands_in_a_training_row(rows: list[Row]) -> None:
    """Nor of what is given; counted without the code that makes the splits."""
    sides = {(row.split, code) for row in rows for code in (row.pair.slow.code, row.pair.fast.code)}
    training: dict[tuple[object, ...], list[int]] = {}  # who has a run
    for number, code in enumerate(sorted(code for split, code in sides if split == "train")):
        for run in runs(code, 8):
            training.setdefault(run, []).append(number)
    tested = [code for split, code in sides if split == "test"]
    assert len(tested) > 10
    leaks = []
    for code in tested:
        for text in functions(code):
            own = runs(text, 8)
            if own.total() + 7 >= 60:
                having = Counter(number for run in own for number in training.get(run, ()))
                share = max(having.values(), default=0) / len(own)
                leaks += [(text, share)] if share >= 0.8 else []
    assert not leaks
