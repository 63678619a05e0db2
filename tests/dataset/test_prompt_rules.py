"""Every sentence of a prompt's rules holds for every answer that is taught with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kcurate.cuda_source import kernel_signatures
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.headers import IN_SIDES
from kcurate.judge.checks.static import check_source, hints
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.prompts import Answer
from kcurate.prompts.replies import read_reply
from kcurate.prompts.tasks import _BRIEF_RULES, _FORMS, _RULES
from kcurate.published_rows import candidate_of, read_rows
from kcurate.records import Candidate, Launch, Side, steps

Check = Callable[["Row", Answer, Side], object]


@dataclass(frozen=True)
class Row:
    """A row of `sft`, with its pair."""

    pair: Candidate
    prompt: list[dict[str, str]]
    answer: str


def one_file(row: Row, answer: Answer, side: Side) -> object:
    blocks = re.findall(r"^```(\w+)$", row.answer, re.MULTILINE)
    return blocks != (["cuda"] if answer.plan is None else ["cuda", "json"]) and blocks


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
    "A computation is given as": (),
    "The plan is data, a list of steps": (),
    "A launch step has": (),
    "Other steps": (),
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
    "Scratch buffers that you add are declared": (scratch_has_dtype_and_shape,),
    "No comments": (no_comments,),
    "Names say what a thing is": (no_telling_name,),
    "Answer with one fenced": (one_file, plan_only_where_it_changes),
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


@pytest.mark.parametrize("sentence", [*sentences(_RULES + _FORMS["text"]), *sentences(_BRIEF_RULES)])
def test_every_sentence_of_the_rules_is_accounted_for(sentence: str) -> None:
    assert [start for start in CHECKED if sentence.startswith(start)], sentence


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    work = tmp_path_factory.mktemp("work")
    build(BuildConfig(work, built_in=True))
    pairs = {one["id"]: one for some in read_rows(work / "dataset").values() for one in some}
    taught = [one for some in read_rows(work / "dataset", "sft").values() for one in some]
    assert len(taught) > 100
    return [
        Row(candidate_of(pairs[one["id"]]), one["prompt"], one["completion"][0]["content"]) for one in taught
    ]


def test_a_prompt_stands_once_and_names_its_gpu(rows: list[Row]) -> None:
    prompts = [re.sub(r"^GPU: .*\n\n", "", row.prompt[1]["content"], flags=re.MULTILINE) for row in rows]
    assert len(set(prompts)) == len(prompts)
    gpus = {re.findall(r"^GPU: (.*)$", row.prompt[1]["content"], re.MULTILINE)[0] for row in rows}
    assert gpus == {"NVIDIA H200 (compute capability 9.0)"}


@pytest.mark.parametrize("check", sorted({one for some in CHECKED.values() for one in some}, key=str))
def test_every_answer_keeps_the_rules(rows: list[Row], check: Check) -> None:
    broken = {}
    for row in rows:
        assert row.pair.problem is not None
        answer = read_reply(row.answer, "text")
        assert isinstance(answer, Answer)
        side = side_of(answer, row.pair.slow, row.pair.problem)
        assert isinstance(side, Side)
        if found := check(row, answer, side):
            broken[row.pair.id] = found
    assert not broken
