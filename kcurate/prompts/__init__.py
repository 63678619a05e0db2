"""All text shown to a model, and the reading of replies: one form for deopt, training and evaluation.

The words themselves are in `texts.toml`, by module.

| module | owns |
|---|---|
| `tasks` | the prompts and their parts: write the slow, the fast, a first side; each again after feedback |
| `plan_language` | what a plan may have, from the words of `schemas/pair.json` |
| `feedback` | what went wrong with an answer, in words that help the next one |
| `replies` | the form of an answer, written and read |
| `tools` | the tools of a conversation: their strict schemas, and what a model is told of them |
| `explained` | the sentences of an answer that begins with a diagnosis |
| `problems` | the prompt for a problem that a draft leaves open, and the reading of the reply |

Not covered: who is asked and what it costs (`kcurate.models`).
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
