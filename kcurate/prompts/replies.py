"""The form of an answer: code, and a plan where the launch changes; as text, or as the input of a tool.

Small and trained models answer in text: one fenced `cuda` block and, if needed, one fenced `json` block with
`plan` (and `buffers`). A tool's input has the same parts; where its schema is strict, extents are strings,
and mappings are lists of entries (`kcurate.prompts.tools`). Not covered: whether plan and code are right (the
judge).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kcurate.core import json_text
from kcurate.records import Language

Form = Literal["text", "tool"]

_KEYS = frozenset({"code", "plan", "buffers"})
_OPENING = re.compile(r" {0,3}```[ \t]*([\w+#.-]*)")
_CLOSING = re.compile(r" {0,3}```\s*\Z")
_WHOLE = re.compile(r"-?\d{1,18}")
# Parts of a plan that stay texts, whatever they say.
_TEXTS = frozenset({"launch", "template", "dtype", "name"})
THOUGHT, END_OF_THOUGHT = "<think>", "</think>"
# What a fence around code may say, and what the code has to have, by the language that was asked for.
_CODE: Mapping[Language, tuple[frozenset[str], str]] = {
    "cuda": (frozenset({"cuda", "cu", "cpp", "c++", "c", ""}), "__global__"),
    "triton": (frozenset({"python", "py", "triton", ""}), "@triton.jit"),
}


@dataclass(frozen=True)
class Answer:
    """Device code, and the plan and scratch buffers as plain JSON data (None: unchanged)."""

    code: str
    plan: Sequence[Any] | None = None
    buffers: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Unreadable:
    """Why a reply is no answer."""

    reason: str


def write_answer(answer: Answer, language: Language = "cuda") -> str:
    """An answer as text: what a model is trained to write, and what `read_reply` parses."""
    fence = "python" if language == "triton" else "cuda"
    parts = [f"```{fence}\n{answer.code.rstrip()}\n```\n"]
    launch = {"plan": answer.plan, "buffers": answer.buffers}
    fields = {key: value for key, value in launch.items() if value is not None}
    if fields:
        parts.append(f"```json\n{json_text.pretty(fields)}\n```\n")
    return "\n".join(parts)


def read_reply(reply: str, form: Form, language: Language = "cuda") -> Answer | Unreadable:
    """The answer in a reply, its code in `language`; never raises, whatever a model wrote."""
    return _read_tool(reply) if form == "tool" else _read_text(reply, language)


def _read_tool(reply: str) -> Answer | Unreadable:
    try:
        data = json.loads(reply)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"the tool's input is not JSON: {error}")
    if not isinstance(data, dict) or not isinstance(data.get("code"), str) or not data["code"].strip():
        return Unreadable("the tool's input has no code")
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        return Unreadable(f"the tool's input has an unknown part: {unknown[0]}")
    answer = _with_launch(data["code"], data)
    if isinstance(answer, Unreadable) or answer.plan is None:
        return answer
    try:
        return Answer(answer.code, [_loosened(step) for step in answer.plan], _loosened(answer.buffers))
    except RecursionError:
        return Unreadable("the plan is nested too deeply")


def _read_text(reply: str, language: Language) -> Answer | Unreadable:
    blocks, (names, mark) = list(_fenced(_without_thoughts(reply))), _CODE[language]
    code = [body for name, body in blocks if name in names and mark in body]
    if not code:
        return Unreadable("no fenced block with a kernel in it")
    launches = [body for name, body in blocks if name == "json"]
    if not launches:
        return Answer(code[-1])
    try:
        data = json.loads(launches[-1])
    except (ValueError, RecursionError) as error:
        return Unreadable(f"the json block is not JSON: {error}")
    return _with_launch(code[-1], {"plan": data} if isinstance(data, list) else data)


def _without_thoughts(text: str) -> str:
    """The text without its thinking blocks: complete ones, one without an end, and one whose start tag was in
    the prompt."""
    kept, at = [], 0
    while (start := text.find(THOUGHT, at)) >= 0:
        kept.append(text[at:start])
        end = text.find(END_OF_THOUGHT, start)
        at = end + len(END_OF_THOUGHT) if end >= 0 else len(text)
    return "".join([*kept, text[at:]]).rpartition(END_OF_THOUGHT)[2]


def _fenced(text: str) -> Iterator[tuple[str, str]]:
    """The closed fenced blocks, in order: their language in lower case, and their text."""
    language: str | None = None
    body: list[str] = []
    for line in text.splitlines(keepends=True):
        if language is None:
            if opening := _OPENING.match(line):
                language, body = opening[1].lower(), []
        elif _CLOSING.match(line):
            yield language, "".join(body)
            language = None
        else:
            body.append(line)


def _with_launch(code: str, data: Any) -> Answer | Unreadable:
    if not isinstance(data, dict):
        return Unreadable("the launch is not a JSON object")
    plan, buffers = data.get("plan"), data.get("buffers")
    if isinstance(buffers, list):
        buffers = _named(buffers, lambda entry: {key: entry[key] for key in entry if key != "name"}) or (
            buffers or None
        )
    if isinstance(plan, str):  # some models send arrays as text
        try:
            plan = json.loads(plan)
        except (ValueError, RecursionError):
            return Unreadable("the plan is not a list of steps")
    if plan is not None and (not isinstance(plan, list) or not plan):
        return Unreadable("the plan is not a list of steps")
    if buffers is not None and not isinstance(buffers, dict):
        return Unreadable("the buffers are not an object")
    return Answer(code, plan, buffers or None)


def _named(entries: Sequence[Any], value: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any] | None:
    """A list of entries with a name as a mapping; None if it is none."""
    if not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries):
        return None
    return {entry["name"]: value(entry) for entry in entries}


def _loosened(part: Any) -> Any:
    """A part of a plan as `pair.json` has it: whole numbers in texts are numbers, constants a mapping."""
    if isinstance(part, list):
        return [_loosened(element) for element in part]
    if isinstance(part, str) and _WHOLE.fullmatch(part):
        return int(part)
    if not isinstance(part, dict):
        return part
    plain = {key: value if key in _TEXTS else _loosened(value) for key, value in part.items()}
    if isinstance(plain.get("constexprs"), list):
        plain["constexprs"] = _named(plain["constexprs"], lambda entry: _constant(entry.get("value")))
    return plain


def _constant(value: Any) -> Any:
    """A compile-time constant: a number or a truth value if its text is one."""
    try:
        return json.loads(value.lower())
    except (AttributeError, ValueError):
        return value
