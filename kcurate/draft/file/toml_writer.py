"""A draft as a file that the user completes in an editor: TOML in the form of a known problem, with comments.

A line that ends in `# ? ...` is open: fill it in and delete the comment. A line that ends in `# guess: ...`
holds a guessed or inferred value; the head of the file tells whether the emulator tried it. Not covered:
parsing the file (`toml_reader`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kcurate.core import codec
from kcurate.core.grouping import grouped
from kcurate.draft.sketch import Draft, Remark

OPEN_MARK = "# ?"
TABLE = "draft"
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
WIDTH = 100


def render(draft: Draft, heading: Sequence[str] = ()) -> str:
    """The file's text; `heading` becomes comment lines at the top."""
    data = codec.to_data(draft.known)
    out = [f"# {line}".rstrip() for line in heading]
    out += ["", f"[{TABLE}]", f"kernel = {_value(draft.kernel)}"]
    out += [f"code_id = {_value(data['code_id'])}"] if "code_id" in data else []
    top = [f"{key} = {_value(data[key])}" for key in ("suite", "benchmark", "paths", "source") if key in data]
    # Top-level keys must precede the first table.
    at = out.index(f"[{TABLE}]")
    out[at:at] = [*top, ""]
    notes = _Notes(draft.remarks)
    out += ["", "[problem]", "single_size = true"] if draft.known.problem.single_size else []
    out += _sizes(data["problem"]["sizes"], notes)
    for name, buffer in data["problem"]["buffers"].items():
        out += _table(("problem", "buffers", name), buffer, notes, f"buffers.{name}")
    if data["problem"].get("scalars"):
        out += ["", "[problem.scalars]"]
        for name, scalar in data["problem"]["scalars"].items():
            out.append(f"{_key(name)} = {_value(scalar)}{notes.take(f'scalars.{name}')}")
    for name, side in data["sides"].items():
        out += _side(name, side, notes)
    rest = notes.rest()
    if rest:
        out += ["", *rest]
    return "\n".join(out).lstrip("\n") + "\n"


class _Notes:
    """Remarks by place, each written once."""

    def __init__(self, remarks: Sequence[Remark]) -> None:
        self._left = grouped((remark.place, remark) for remark in remarks)

    def take(self, place: str) -> str:
        """The trailing comment for a place's line; empty if there is no remark."""
        return "".join(f"  {_comment(remark)}" for remark in self._left.pop(place, [])[-1:])

    def rest(self) -> list[str]:
        """Remarks on places without a line of their own."""
        return [
            f"{_comment(remark)} ({place})" for place, remarks in self._left.items() for remark in remarks
        ]


def _comment(remark: Remark) -> str:
    text = " ".join(remark.text.split())
    return f"{OPEN_MARK} {text}" if remark.open else f"# {text}"


def _sizes(sizes: Mapping[str, Any], notes: _Notes) -> list[str]:
    out = ["", "[problem.sizes]", "test = ["]
    out += [f"  {_value(dict(setting))}," for setting in sizes["test"]]
    out.append(f"]{notes.take('sizes.test')}")
    out.append(f"bench = {_value(sizes['bench'])}{notes.take('sizes.bench')}")
    return out


def _table(path: Sequence[str], data: Mapping[str, Any], notes: _Notes, place: str) -> list[str]:
    out = ["", f"[{'.'.join(map(_key, path))}]"]
    fields = {"role": "in", **data} if "role" not in data else dict(data)
    keys = [key for key in ("dtype", "shape", "role", "init", "tolerance", "pad") if key in fields]
    return [*out, *(f"{key} = {_value(fields[key])}{notes.take(f'{place}.{key}')}" for key in keys)]


def _side(name: str, side: Mapping[str, Any], notes: _Notes) -> list[str]:
    out: list[str] = []
    rest = {key: value for key, value in side.items() if key != "plan"}
    path = f"sides.{_key(name)}"
    if rest:
        out += ["", f"[{path}]", *(f"{key} = {_value(value)}" for key, value in rest.items())]
    if not side["plan"]:
        return [*out, "", f"[{path}]", f"plan = []{notes.take('plan')}"]
    for step in side["plan"]:
        out += ["", f"[[{path}.plan]]"]
        for key, value in step.items():
            out.append(f"{key} = {_value(value)}{notes.take(f'plan.{key}')}")
    return out


def _key(name: str) -> str:
    return name if _BARE.match(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any, width: int = WIDTH) -> str:
    """A TOML value on one line; long lists are wrapped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        flat = "[" + ", ".join(_value(item) for item in value) + "]"
        if len(flat) <= width:
            return flat
        return "[\n" + "".join(f"  {_value(item)},\n" for item in value) + "]"
    return repr(value)
