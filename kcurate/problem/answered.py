"""Turns a model's answer into a side.

Not covered: finding the answer in a reply (`kcurate.prompts`), whether the side is right (the judge).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from kcurate.core import codec, store
from kcurate.cuda_source import features
from kcurate.errors import RecordError
from kcurate.problem import shown
from kcurate.problem.outputs import float_outputs
from kcurate.prompts import Answer
from kcurate.records import Buffer, Candidate, Language, Problem, Side
from kcurate.triton_source import bare_python

# Far above any real plan; a loop in a loop has depth 9.
MAX_PLAN_CHARS = 20_000
MAX_PLAN_DEPTH = 24
# In Rodinia and Parboil, the longest kernel with its dependencies has 50 KB, the longest statement 8 KB.
MAX_CODE_BYTES = 64 * 1024
MAX_STATEMENT_CHARS = 12_000
MAX_SHARED_IN_A_STATEMENT = 20
# A degenerate completion repeats itself: it has more than `MANY_TOKENS` tokens, and fewer than this share of
# its runs of five tokens are distinct.
MANY_TOKENS = 4000
LEAST_DISTINCT = 0.02


def side_of(answer: Answer, shown_side: Side, problem: Problem, language: Language = "cuda") -> Side | str:
    """The side that an answer describes, without comments; or the reason why the answer is refused.

    The prompt showed `shown_side`. The answer's code is in `language`, which may differ from that side's.
    Buffers that the answer adds can only be scratch: a model supplies no inputs and names no files.
    """
    if (lost := _unparsable(answer.code)) is not None:
        return lost
    try:
        text = answer.code.encode().decode()
        code = shown.shown_code(text) if language == "cuda" else bare_python(text)
        side = replace(
            shown_side, code=code, nondeterministic=loose_outputs(code, problem), language=language
        )
        if answer.plan is None and shown_side.language != language:
            return "no plan: the given side has none to keep"
        if answer.plan is None:
            return "buffers without a plan" if answer.buffers else side
        text = json.dumps(answer.plan)
        if len(text) > MAX_PLAN_CHARS:
            return "the plan is too long"
        if _depth(answer.plan) > MAX_PLAN_DEPTH:
            return "the plan is nested too deeply"
        scratch = {name: _scratch(name, data, problem) for name, data in (answer.buffers or {}).items()}
        still_used = {name: buffer for name, buffer in shown_side.buffers.items() if f'"{name}"' in text}
        data = {"code": code, "plan": list(answer.plan), "language": language}
        return replace(side, plan=codec.from_data(Side, data).plan, buffers=still_used | scratch)
    except UnicodeError:
        return "the code is not text"
    except SyntaxError as error:
        return f"the module is not Python: {error.msg} (line {error.lineno})"
    except RecursionError:
        return "the plan is nested too deeply"
    except RecordError as error:
        return error.what


def _unparsable(code: str) -> str | None:
    """Why code is refused without parsing it: it is too long or repetitive; None if neither."""
    if len(code) > MAX_CODE_BYTES:
        return "the code is too long"
    for part in re.split(r"[;{}]", code):
        if len(part) > MAX_STATEMENT_CHARS or part.count("__shared__") > MAX_SHARED_IN_A_STATEMENT:
            return "a statement is too long"
    tokens = re.findall(r"\w+|\S", code)
    runs = set(zip(*(tokens[i:] for i in range(5)), strict=False))
    if len(tokens) > MANY_TOKENS and len(runs) < LEAST_DISTINCT * len(tokens):
        return "the code repeats itself"
    return None


def _depth(data: object) -> int:
    """Nesting depth of lists and objects."""
    deepest, waiting = 0, [(data, 1)]
    while waiting:
        item, depth = waiting.pop()
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in inner]
    return deepest


def _scratch(name: str, data: Any, problem: Problem) -> Buffer:
    if name in problem.buffers or name in problem.scalars:
        raise RecordError(f"the problem already has a {name}")
    if not isinstance(data, dict) or set(data) - {"role"} != {"dtype", "shape"}:
        raise RecordError(f"the buffer {name} needs dtype and shape, and nothing else")
    if data.get("role", "scratch") != "scratch":
        raise RecordError(f"the buffer {name} can only be scratch")
    return codec.from_data(Buffer, data | {"role": "scratch"})


def loose_outputs(code: str, problem: Problem) -> tuple[str, ...]:
    """Outputs whose rounding may differ between runs: floating-point ones, if the code has atomics."""
    if "atomics" not in features(code.encode()) and "tl.atomic" not in code:
        return ()
    return float_outputs(problem)


def misfit(candidate: Candidate) -> str | None:
    """Why a candidate cannot be stored as a record; None if it can."""
    try:
        store.check_schema("pair", store.candidate_data(candidate), where="the answer")
    except RecordError as error:
        return error.what
    return None
