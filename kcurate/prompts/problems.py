"""The prompt to complete a drafted problem, and reading the reply.

Not covered: checking the problem (`kcurate.draft`), asking for the other side of a kernel (`tasks`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kcurate.core import resources
from kcurate.prompts.feedback import without_paths
from kcurate.prompts.replies import Form, Unreadable
from kcurate.records import Prompt

PROBLEM_TOOL: Mapping[str, Any] = {
    "name": "submit_problem",
    "description": "Hand in the completed problem file.",
    "input_schema": {
        "type": "object",
        "properties": {"problem": {"type": "string", "description": "The whole file, TOML."}},
        "required": ["problem"],
        "additionalProperties": False,
    },
    "strict": True,
}
_FENCED = re.compile(r"^ {0,3}```[ \t]*(?:toml)?[ \t]*\n(.*?)^ {0,3}```[ \t]*$", re.DOTALL | re.MULTILINE)

_TEXTS = resources.table("kcurate.prompts", "texts.toml")["problems"]


def complete_problem(draft: str, code: str, generators: Sequence[str], form: Form) -> Prompt:
    """The prompt for one draft; `generators`: the kinds of `init` that it may use."""
    kinds = f"Kinds of `init`: {', '.join(generators)}.\n"
    context = f"Kernel:\n```cuda\n{code.rstrip()}\n```\n"
    return Prompt(
        _TEXTS["rules"] + kinds + _TEXTS[form], context, f"Draft:\n```toml\n{draft.rstrip()}\n```\n"
    )


def not_admitted(why: str) -> str:
    """The message after a file that was not admitted."""
    what = without_paths(why.rstrip())
    return f"The file is not admitted. What was found:\n{what}\nHand in the whole file, put right.\n"


def read_problem(reply: str, form: Form) -> str | Unreadable:
    """The file in a reply; never raises, whatever a model wrote."""
    if form == "text":
        blocks = _FENCED.findall(reply if reply.endswith("\n") else f"{reply}\n")
        return str(blocks[-1]) if blocks else Unreadable("no fenced block with a problem in it")
    try:
        data = json.loads(reply)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"the tool's input is not JSON: {error}")
    problem = data.get("problem") if isinstance(data, dict) else None
    return problem if isinstance(problem, str) else Unreadable("the tool's input has no problem")
