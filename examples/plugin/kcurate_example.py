"""A rewrite rule, a reader of files and a reward for kcurate, each declared in pyproject.toml."""

import re
from collections.abc import Sequence

from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules import NotApplicable, Rule
from kcurate.deopt.rules.base import Subject
from kcurate.records import Side
from kcurate.reward.schemes import Earned

FENCE = re.compile(rb"^```(?:cuda|cu)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def plain_loads(subject: Subject) -> Side | NotApplicable:
    """Replace `__ldg(p)` by `(*(p))`: the same value, by the path of ordinary loads."""
    edits = []
    for call in subject.tree.nodes("call_expression"):
        function = call.child_by_field_name("function")
        if function is not None and subject.tree.text(function) == b"__ldg":
            edits.append(Edit(function.start_byte, function.end_byte, b"(*"))
            edits.append(Edit(call.end_byte, call.end_byte, b")"))
    return subject.with_edits(edits, "no __ldg")


# Its name, the technique (schemas/techniques.json), what is removed in words, and the function.
PLAIN_LOADS = Rule("plain-loads", "read-only-cache", "loads through the read-only cache", plain_loads)


class Markdown:
    """CUDA in fenced blocks of Markdown."""

    suffixes = (".md",)

    def read(self, path: str, data: bytes) -> bytes:
        """The blocks where they stand, and blanks elsewhere, so that spans are those of the file."""
        text = bytearray(re.sub(rb"[^\n]", b" ", data))
        for block in FENCE.finditer(data):
            text[block.start(1) : block.end(1)] = block[1]
        return bytes(text)


MARKDOWN = Markdown()


def brevity(
    group: Sequence[Earned], *, right: float = 1.0, per_kilobyte: float = 0.1
) -> list[dict[str, float]]:
    """`right` for a right answer, less `per_kilobyte` for its length."""
    return [
        {
            "right": right * earned.standing.correct,
            "length": -per_kilobyte * len(earned.code) / 1000 * earned.standing.correct,
        }
        for earned in group
    ]
