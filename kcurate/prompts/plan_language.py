"""The plan language as prompts explain it, made from the descriptions in `schemas/pair.json`.

Not covered: what a plan means when it runs (`kcurate.problem.program`), the rest of a prompt (`tasks`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kcurate.core import resources
from kcurate.records import Language

# What an answer may have, by language, as definitions of the schema; `torch` is only ever given.
STEPS: Mapping[Language, tuple[str, ...]] = {
    "cuda": ("Launch", "Fill", "Copy", "Upload", "Swap", "For", "WhileNonzero"),
    "triton": ("Launch", "Fill", "Copy", "Swap", "For", "WhileNonzero"),
}
ARGUMENTS: Mapping[Language, tuple[str, ...]] = {
    "cuda": ("BufferArg", "ValueArg", "TensorMapArg"),
    "triton": ("BufferArg", "ValueArg"),
}
# The keys of a launch that the other language has.
OTHERS: Mapping[Language, frozenset[str]] = {
    "cuda": frozenset({"constexprs", "num_warps", "num_stages", "nulls"}),
    "triton": frozenset({"block", "template", "shared_bytes", "cooperative", "cluster"}),
}
# A launch in CUDA cannot do without it, though the schema, which has both languages, can.
_NEEDED = {"block"}
# Said once for all steps and arguments.
_RANGES = {"offset", "to_offset", "count"}
# Keys that the rules explain, or that need no words beside the problem.
_PLAIN = frozenset({"dtype", "shape", "init", "role", "sizes", "buffers", "scalars", "tolerance"})
# Those of the rule for floating-point outputs, which stands beside problems that have them.
_OF_THE_RULE = frozenset({"terms", "scale", "accumulate"})
# Parts of a problem whose keys are explained where they occur, and what a given plan may have besides.
_OF_PROBLEMS = ("Problem", "Buffer", "Tolerance")
_OF_GIVEN_PLANS = ("BindTexture", "PointersArg")


@cache
def definitions() -> Mapping[str, Any]:
    """The definitions of `schemas/pair.json`."""
    document = json.loads((resources.schemas_dir() / "pair.json").read_bytes())
    parts: Mapping[str, Any] = document["$defs"]
    return parts


def form(name: str, language: Language = "cuda") -> str:
    """A definition as one line of JSON with words for values; `?` marks what may be left out."""
    part = definitions()[name]
    keys = [key for key in part["properties"] if name != "Launch" or key not in OTHERS[language]]
    needed = {*part["required"], *_NEEDED}
    listed = (f'"{key}"{"" if key in needed else "?"}{_value(part, key)}' for key in keys)
    return f"{{{', '.join(listed)}}}"


def _value(part: Mapping[str, Any], key: str) -> str:
    return "" if key in _RANGES else f": {_words(part, key)}"


def _words(part: Mapping[str, Any], key: str) -> str:
    return str(part["properties"][key]["description"])


@cache
def plans(language: Language) -> str:
    """The paragraph that defines plans in a language."""
    lines = [
        "The plan is data: a list of steps, run in order. E is an integer, or a text of integer arithmetic "
        "over sizes, integer scalars and loop variables (+ - * / % min max ceil_div align_up log2 pow2). A ? "
        "marks what may be left out; offsets and counts are E, in elements (else 0, else all). Steps:",
        *(form(name, language) for name in STEPS[language]),
        "An argument is the name of a buffer, scalar, size or loop variable, or:",
        *(form(name, language) for name in ARGUMENTS[language]),
        *(("(for a parameter const __grid_constant__ CUtensorMap)",) if language == "cuda" else ()),
        'Scratch buffers that you add: {name: {"dtype": type, "shape": [E]}}, with types as in the problem, '
        "int8 to int64, uint8 to uint64, float16, bfloat16, float32 or float64.",
    ]
    return "\n".join(lines) + "\n\n"


@cache
def triton_launches() -> str:
    """The paragraph after `plans("cuda")` that says how launches of Triton differ."""
    missing = '"upload" or "tensor_map"'
    return f"In Triton a plan has no {missing}, and a launch is\n{form('Launch', 'triton')}\n\n"


def explained(data: Any) -> Iterator[str]:
    """A line for each key of a problem or a given plan (plain JSON) that the rules do not explain."""
    keys = frozenset(_keys(data))
    for name in _OF_GIVEN_PLANS:
        if definitions()[name]["required"][0] in keys:
            yield form(name)
    for name in _OF_PROBLEMS:
        part = definitions()[name]
        for key in part["properties"]:
            if key in keys - _PLAIN - _OF_THE_RULE and key != "single_size":
                yield f'"{key}": {_words(part, key)}'


def _keys(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from _keys(value)
    elif isinstance(data, list):
        for value in data:
            yield from _keys(value)
