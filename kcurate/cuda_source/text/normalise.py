"""Code as it is published and compared: without comments, with layout and names normalised."""

from __future__ import annotations

from kcurate.cuda_source.text.blanking import without_comments
from kcurate.cuda_source.text.tokens import COMPARED, IDENTIFIER


def normalise(code: bytes, renames: dict[bytes, bytes] | None = None) -> bytes:
    """The code without comments, trailing blanks and repeated empty lines, renamed by `renames`."""
    text = without_comments(code.replace(b"\r\n", b"\n"))
    if renames:
        text = IDENTIFIER.sub(lambda match: renames.get(match[0], match[0]), text)
    lines = [line.rstrip() for line in text.split(b"\n")]
    lines_left = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    return b"\n".join(lines_left).strip() + b"\n"


def normalised_tokens(code: bytes) -> tuple[bytes, ...]:
    """The tokens of the code without comments; each punctuation character is a token."""
    return tuple(COMPARED.findall(without_comments(code)))
