"""All text shown to a model, and the reading of replies: one form for deopt, training and evaluation.

The words themselves are in `texts.toml`, by module.

| module | owns |
|---|---|
| `tasks` | the prompts and their parts: for a slow, a fast or a first side, and after feedback |
| `plan_language` | the steps and keys of a plan, described by `schemas/pair.json` |
| `feedback` | the findings on an answer, worded to help the next one |
| `replies` | the form of an answer, written and read |
| `tools` | the tools of a conversation: their strict schemas and their descriptions |
| `explained` | the sentences of an answer that begins with a diagnosis |
| `problems` | the prompt for a problem that a draft leaves open, and the reading of the reply |

Not covered: sending prompts, and their cost (`kcurate.models`).
"""

from kcurate.prompts.feedback import feedback
from kcurate.prompts.replies import Answer, Unreadable, read_reply, write_answer
from kcurate.prompts.tasks import (
    FORMAT,
    Earlier,
    Example,
    Material,
    Technique,
    again,
    asking_why,
    build,
    chat,
    go_on,
    in_any_language,
    write,
)

__all__ = [
    "FORMAT", "Answer", "Earlier", "Example", "Material", "Technique", "Unreadable", "again", "asking_why",
    "build", "chat", "feedback", "go_on", "in_any_language", "read_reply", "write", "write_answer",
]  # fmt: skip
