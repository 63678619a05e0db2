"""Cuts C++ into tokens: the only lexical grammar outside the judge.

Every text can be cut, since a character that starts no other token is a token. Raw strings are recognised
when comments and literals are blanked, but not as tokens, since device code has none. The judge has its own
lexer (`kcurate.judge.checks.lexer`), which hostile code must not evade: it joins spliced lines, and rejects
text that two compilers would cut differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The rest of a line, with the lines that a backslash joins to it. Here and below, `other*(?:special other*)*`
# is the faster form of `(?:special|other)*`.
REST_OF_LINE = r"[^\n\\]*(?:\\(?:\r?\n)?[^\n\\]*)*"
COMMENT = rf"//{REST_OF_LINE}|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|\Z)"
LITERAL = r""""[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"""
WORD = r"[A-Za-z_]\w*"
NUMBER = r"\.?\d(?:[eEpP][+-]|'?\w|\.)*"
SIGN = r"<<<|>>>|<<=|>>=|\.\.\.|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|\#\#|\+\+|--|->|::|\S"
DIRECTIVE = re.compile(rf"^[ \t]*#{REST_OF_LINE}".encode(), re.MULTILINE)
_PREFIXED = rf"(?:u8|[uUL])?(?:{LITERAL})"

IDENTIFIER = re.compile(WORD.encode())
# A raw string with its prefix, and a number with digit separators: neither `"` nor `'` ends or begins a
# literal in them. Each begins with a character of its own, so that the search stays quick.
RAW = r"""R(?:(?<!\wR)|(?<=[uUL]R)|(?<=u8R))"(?P<end>[^()\\\s"]{0,16})\(.*?\)(?P=end)\""""
_SEPARATED = r"[0-9](?<!\w[0-9])[\w.]*(?:'\w[\w.]*)+"
# Comments, and literals that may contain something like one; numbers that contain a quote.
_COMMENT_OR_LITERAL = re.compile(f"{COMMENT}|{LITERAL}|{RAW}|{_SEPARATED}".encode(), re.DOTALL)
# The same where no number contains a quote: five times as quick, as no digit is looked at.
_WITHOUT_SEPARATED = re.compile(f"{COMMENT}|{LITERAL}|{RAW}".encode(), re.DOTALL)
# A quote inside a word, other than behind letters alone ("don't"): it may be one in a number.
_IN_WORD = re.compile(
    b"".join([rb"'(?<=[\w.]')", *(rb"(?<![^\w.][A-Za-z_]{%d}')" % count for count in range(1, 13)), rb"\w"])
)
_CODE = re.compile(f"{_PREFIXED}|{NUMBER}|{WORD}|{SIGN}".encode(), re.DOTALL)
# Tokens for comparing code: each punctuation character is a token.
COMPARED = re.compile(rf"{WORD}|{NUMBER}|{LITERAL}|\S".encode(), re.DOTALL)
# Text with its kinds; a directive is skipped as a comment is.
KINDS = re.compile(
    rf"(?P<skip>\s+|{COMMENT}|^[ \t]*\#(?:\\\n|[^\n])*)|(?P<string>{LITERAL})|(?P<number>{NUMBER})"
    rf"|(?P<word>{WORD})|(?P<sign>{SIGN})",
    re.DOTALL | re.MULTILINE,
)


def comment_or_literal(text: bytes) -> re.Pattern[bytes]:
    """The pattern that matches a text's comments and literals, and its numbers that contain a quote."""
    return _COMMENT_OR_LITERAL if _IN_WORD.search(text) else _WITHOUT_SEPARATED


def directives(text: bytes, pattern: re.Pattern[bytes] = DIRECTIVE) -> Iterator[re.Match[bytes]]:
    """`pattern.finditer(text)` for a pattern that begins with `^[ \\t]*#`, in a third of the time."""
    at = text.find(b"#")
    while at >= 0:
        start = text.rfind(b"\n", 0, at) + 1
        match = None if text[start:at].strip(b" \t") else pattern.match(text, start)
        if match is not None:
            yield match
        end = match.end() if match is not None else text.find(b"\n", at)
        at = text.find(b"#", end) if end >= 0 else -1


def tokens(text: bytes) -> list[bytes]:
    """The tokens of a text without comments."""
    return _CODE.findall(text)
