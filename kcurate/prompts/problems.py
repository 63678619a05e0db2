"""The prompt to complete a drafted problem, and reading the reply.

Not covered: checking the problem (`kcurate.draft`), asking for the other side of a kernel (`tasks`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

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

_RULES = """\
You complete a problem file (TOML) for a CUDA kernel. A problem says on what data the kernel is run, so that \
another version of it can be compared with it. A program drafted the file from the kernel and from host code \
that you do not see; remarks tell what the host code passes. Lines that end in `# ? ...` are open: give them \
a value and delete the comment. Lines that end in `# guess: ...` were guessed: correct them where the \
kernel's code shows better.

- problem.sizes: `test` lists at least two different settings of the same named sizes, small (buffers below \
30,000 elements) and of different scales, odd where the code has bounds checks; `bench` is one large setting.
- problem.buffers.NAME: `dtype` (float16, bfloat16, float32, float64, int8 to int64, uint8 to uint64, bool), \
`shape` (a list of integers and expressions over the sizes, with + - * / % min max ceil_div align_up log2 \
pow2; a vector type such as float4 is a last axis of 4), `role` (in, out, inout, scratch) and, for in and \
inout, `init` = {kind = "...", ...}. An out buffer must be written completely, else it is inout.
- Values used as indices stay inside the buffer that they index, at every size. Integers: \
{kind = "integers", low = 0, high = "n"}, with `high` exclusive.
- problem.scalars: floating-point arguments as NAME = {dtype = "float32", value = 0.5}.
- The plan launches the kernel once: `grid` and `block` (lists of one to three expressions), `args` in the \
order of the kernel's parameters (the name of a buffer, size or scalar, {buffer = "a", offset = "n"}, or \
{value = "2*n", dtype = "int64"}), `template` (the template arguments as strings), `shared_bytes`.
- The kernel's code stays as it is. Neither files nor data outside of this problem may be named.
- Keep the keys `suite`, `benchmark`, `paths` and the table [draft] as they are.
"""
_TRIED = (
    "It is tried at once: the kernel is run with it on an emulator. If it is not admitted you are told why, "
    "and go on.\n"
)
_FORMS: Mapping[Form, str] = {
    "tool": f"Hand in the file with the tool submit_problem. {_TRIED}",
    "text": f"Answer with one fenced ```toml block that holds the whole file. {_TRIED}",
}


def complete_problem(draft: str, code: str, generators: Sequence[str], form: Form) -> Prompt:
    """The prompt for one draft; `generators`: the kinds of `init` that it may use."""
    kinds = f"Kinds of `init`: {', '.join(generators)}.\n"
    context = f"Kernel:\n```cuda\n{code.rstrip()}\n```\n"
    return Prompt(_RULES + kinds + _FORMS[form], context, f"Draft:\n```toml\n{draft.rstrip()}\n```\n")


def not_admitted(why: str) -> str:
    """What a model is told of a file that was not admitted."""
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
