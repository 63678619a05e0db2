"""A candidate as it is published: without comments, and without names that reveal which side is slow or fast.

Names change in the code and in the plan that launches it. Not covered: names in the problem (buffers,
scalars, sizes), which both sides share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kcurate.core import codec
from kcurate.cuda_source import normalise
from kcurate.records import Candidate, Side
from kcurate.triton_source import bare_python

# Parts of names that reveal the side; `fast_math` does not.
LABELS = re.compile(
    r"slow|naive|na_ve|unoptimi[sz]ed|deoptimi[sz]ed|baseline|inefficient|suboptimal|uncoalesced|wasteful|"
    r"fast(?!_?math)|optimi[sz]ed|speedup|sandbag",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
# Names of CUDA, the compiler and the standard library, which are not renamed, match this.
_FOREIGN = re.compile(r"\b__|\bstd\b|_fast\d*_t\b")
# The keys of a plan's steps whose values are names in the code.
_NAMED = ("launch", "upload", "bind_texture")


def neutral(candidate: Candidate) -> Candidate:
    """The candidate with both codes normalised, and labels removed from the names in codes and plans."""
    return replace(candidate, slow=neutral_side(candidate.slow), fast=neutral_side(candidate.fast))


def neutral_side(side: Side) -> Side:
    """A side with normalised code and neutral names; plan, buffers and views otherwise unchanged."""
    bare = _bare(side, {})
    renames = _renames(set(_NAME.findall(bare)), {*side.buffers, *side.views})
    data = codec.to_data(side)
    data["code"] = _bare(replace(side, code=bare), renames)
    data["plan"] = _follow(data["plan"], renames)
    return codec.from_data(Side, data)


def commented(code: str) -> str:
    """A side's code with neutral names, and with its comments."""
    bare = normalise(code.encode("utf-8", "replace"))
    renames = _renames(set(_NAME.findall(bare.decode("utf-8", "replace"))), set())
    return _NAME.sub(lambda match: renames.get(match[0], match[0]), code)


def _bare(side: Side, renames: Mapping[str, str]) -> str:
    """The code without comments, in a fixed layout, with names replaced."""
    if side.language != "cuda":
        return bare_python(side.code, renames)
    named = {old.encode(): new.encode() for old, new in renames.items()}
    return normalise(side.code.encode("utf-8", "replace"), named).decode("utf-8", "replace")


def _renames(names: set[str], reserved: set[str]) -> Mapping[str, str]:
    renames: dict[str, str] = {}
    used = set(names)
    for name in sorted(names):
        if not LABELS.search(name) or _FOREIGN.search(name) or name in reserved:
            continue
        base = re.sub(r"_+", "_", LABELS.sub("", name)).strip("_")
        base = base if _NAME.fullmatch(base) else f"code_{base}".rstrip("_")
        new, number = base, 1
        while new in used:
            number += 1
            new = f"{base}_{number}"
        used.add(new)
        renames[name] = new
    return renames


def _follow(node: Any, renames: Mapping[str, str]) -> Any:
    """A plan's data with kernels, symbols and template arguments renamed."""

    def rename(text: str) -> str:
        return _NAME.sub(lambda match: renames.get(match[0], match[0]), text)

    if isinstance(node, list):
        return [_follow(item, renames) for item in node]
    if not isinstance(node, dict):
        return node
    renamed = {key: _follow(value, renames) if key == "do" else value for key, value in node.items()}
    for key in _NAMED:
        if isinstance(renamed.get(key), str):
            renamed[key] = rename(renamed[key])
    if "constexprs" in renamed:
        renamed["constexprs"] = {
            renames.get(name, name): value for name, value in renamed["constexprs"].items()
        }
    if "nulls" in renamed:
        renamed["nulls"] = [renames.get(name, name) for name in renamed["nulls"]]
    if "template" in renamed:
        renamed["template"] = [rename(text) for text in renamed["template"]]
    return renamed
