"""The tools that a model has while it writes a side: their schemas and descriptions.

The schemas are strict, as servers that generate calls by grammar require: no unnamed properties, no
recursion, few optional properties. A loop therefore contains steps but no other loop. Not covered: what the
tools do (`kcurate.deopt.models.bench`), how their input is read (`replies`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kcurate.core import resources
from kcurate.records import Language

COMPILE, RUN, TIME, PROFILE = "compile", "run_tests", "time", "profile"
SUBMIT, SUBMIT_VERSION = "submit_kernel", "submit_version"
# The tool of training in several turns (`kcurate.train.turns`), as chat templates and servers take it.
JUDGE: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "judge",
        "description": "Compile an answer, compare its results with those of the given code, and time it.",
        "parameters": {
            "type": "object",
            "properties": {
                "answer": {
                    "type": "string",
                    "description": "The whole answer, in the form that the final one has.",
                }
            },
            "required": ["answer"],
        },
    },
}
_WORDS = resources.table("kcurate.prompts", "texts.toml")["tools"]
# Those that go on with a conversation.
RUNS = frozenset({COMPILE, RUN, TIME, PROFILE})

_TEXT: Mapping[str, Any] = {"type": "string"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
_INTEGER: Mapping[str, Any] = {"type": "integer"}


def _object(*missing: str, **parts: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others; those in `missing` are optional."""
    required = [name for name in parts if name not in missing]
    return {"type": "object", "properties": parts, "required": required, "additionalProperties": False}


def _defined(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


_ARGUMENT = {
    "anyOf": [_TEXT, _object(buffer=_TEXT, offset=_TEXT), _object(value=_TEXT, dtype=_TEXT)],
    "description": "A buffer or scalar by name, a buffer from an offset, or the value of an expression.",
}
_CUDA_LAUNCH = _object(
    "template", "shared_bytes", "cluster",
    launch=_TEXT, grid=_TEXTS, block=_TEXTS, args={"type": "array", "items": _ARGUMENT},
    template=_TEXTS, shared_bytes=_TEXT, cluster=_TEXTS,
)  # fmt: skip
_TRITON_LAUNCH = _object(
    "num_warps", "num_stages",
    launch=_TEXT, grid=_TEXTS, args=_TEXTS,
    constexprs={"type": "array", "items": _object(name=_TEXT, value=_TEXT)},
    num_warps=_INTEGER, num_stages=_INTEGER,
)  # fmt: skip
_FLAT = {
    "fill": _object(fill=_TEXT, value={"type": "number"}),
    "copy": _object(copy=_TEXT, to=_TEXT),
    "upload": _object(**{"upload": _TEXT, "from": _TEXT}),
    "swap": _object(swap=_TEXTS),
}
_DO = {"type": "array", "items": {"anyOf": [_defined("launch"), *map(_defined, _FLAT)]}}
_LOOPS = {
    "for": _object(**{"for": _TEXT, "from": _TEXT, "to": _TEXT, "do": _DO}),
    "while": _object(while_nonzero=_TEXT, max=_TEXT, do=_DO),
}
_BUFFERS = {
    "type": "array",
    "items": _object(name=_TEXT, dtype=_TEXT, shape=_TEXTS),
    "description": "Scratch buffers that only this plan uses. Leave out when none are needed.",
}
# What the steps of a plan may have for the strict schema to say it.
_SAID = {"cuda": frozenset(_CUDA_LAUNCH["properties"]), "triton": frozenset(_TRITON_LAUNCH["properties"])}
_MOVES = frozenset({"fill", "value", "copy", "to", "upload", "from", "swap"})
_ARGUMENTS = (frozenset({"buffer", "offset"}), frozenset({"buffer"}), frozenset({"value", "dtype"}))


def _side(language: Language, what: str) -> dict[str, Any]:
    """The schema of a side: code, and the plan where it changes."""
    plan = {
        "type": "array",
        "items": {"anyOf": [_defined("launch"), *map(_defined, _FLAT), *map(_defined, _LOOPS)]},
        "description": "The complete plan. Leave out to keep the one given.",
    }
    schema = _object("plan", "buffers", code={**_TEXT, "description": what}, plan=plan, buffers=_BUFFERS)
    launch = _TRITON_LAUNCH if language == "triton" else _CUDA_LAUNCH
    return schema | {"$defs": {"launch": launch, **_FLAT, **_LOOPS}}


_LOOSE = _object(
    "plan", "buffers",
    code=_TEXT,
    plan={"type": "array", "items": {"type": "object"}, "description": "The whole plan, as the given one."},
    buffers={"type": "object", "description": "Scratch buffers of this plan: name to {dtype, shape}."},
)  # fmt: skip


def _tool(name: str, schema: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    tool = {"name": name, "description": _WORDS["descriptions"][name], "input_schema": schema}
    return tool | ({"strict": True} if strict else {})


def tools(
    language: Language, plan: Sequence[Mapping[str, Any]], runs: Collection[str] = RUNS
) -> list[dict[str, Any]]:
    """The tools for a side in `language`; `plan`: that of the given side, as plain data.

    `runs`: the names of the tools besides the one that submits the answer; empty: the model submits at once.
    If the given plan has parts that the strict schema cannot express, such as tensor maps, the side's schema
    is loose.
    """
    strict = expressible(plan, language)
    side = _side(language, "The whole file.") if strict else _LOOSE
    submit = _tool(SUBMIT, side, strict=strict)
    if not runs:
        return [submit]
    of_version = [_tool(name, _object(version=_INTEGER)) for name in (RUN, TIME, PROFILE, SUBMIT_VERSION)]
    every = [_tool(COMPILE, side, strict=strict), *of_version[:-1], submit, of_version[-1]]
    return [tool for tool in every if tool["name"] in runs or tool["name"] not in RUNS]


def expressible(plan: Sequence[Mapping[str, Any]], language: Language) -> bool:
    """Whether the strict schema can express a plan."""
    return all(_step_expressible(step, language, loop=True) for step in plan)


def _step_expressible(step: Mapping[str, Any], language: Language, *, loop: bool) -> bool:
    if "do" in step:
        inside: Sequence[Mapping[str, Any]] = step["do"]
        return loop and all(_step_expressible(inner, language, loop=False) for inner in inside)
    if "launch" not in step:
        return step.keys() <= _MOVES
    return step.keys() <= _SAID[language] and all(_arguments_expressible(step.get("args", ())))


def _arguments_expressible(arguments: Sequence[Any]) -> Iterator[bool]:
    for argument in arguments:
        yield isinstance(argument, str) or argument.keys() in _ARGUMENTS


def told(language: Language, calls: int, seconds: float, runs: Collection[str] = RUNS) -> str:
    """The description of the tools `runs` for the prompt; `calls` 0: only the one that submits."""
    profiles = PROFILE in runs
    others = "run_tests, time and profile" if profiles else "run_tests and time"
    counters = _WORDS["counters"] if profiles else ""
    how = _WORDS["submit"]
    if calls:
        how = _WORDS["runs"].format(calls=calls, seconds=round(seconds), others=others, counters=counters)
    return f"{_WORDS[f'worked_{language}']}{_WORDS['strict']}{how}"
