"""C++ cut into tokens: the one lexical grammar outside the judge.

Any text has tokens, as a character that starts no other is one. Raw strings are found where comments and
literals are blanked; as tokens they are not covered, since device code has none. The judge keeps its own
lexer (`kcurate.judge.checks.lexer`), which hostile code must not evade: it joins spliced lines, and refuses
what two compilers would cut up differently.
"""

from __future__ import annotations

import re

COMMENT = r"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)"
LITERAL = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
WORD = r"[A-Za-z_]\w*"
NUMBER = r"\.?\d(?:[eEpP][+-]|'?\w|\.)*"
SIGN = r"<<<|>>>|<<=|>>=|\.\.\.|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|\#\#|\+\+|--|->|::|\S"
# A directive, with the lines that a backslash at the end joins to it.
DIRECTIVE = re.compile(rb"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_PREFIXED = rf"(?:u8|[uUL])?(?:{LITERAL})"

IDENTIFIER = re.compile(WORD.encode())
# A raw string with its prefix, and a number with digit separators: neither `"` nor `'` ends or begins a
# literal in them. Each begins with a character of its own, so that the search stays quick.
RAW = r"""R(?:(?<!\wR)|(?<=[uUL]R)|(?<=u8R))"(?P<end>[^()\\\s"]{0,16})\(.*?\)(?P=end)\""""
_SEPARATED = r"[0-9](?<!\w[0-9])[\w.]*(?:'\w[\w.]*)+"
# Comments, and literals that may contain something like one; numbers that contain a quote.
COMMENT_OR_LITERAL = re.compile(f"{COMMENT}|{LITERAL}|{RAW}|{_SEPARATED}".encode(), re.DOTALL)
_CODE = re.compile(f"{_PREFIXED}|{NUMBER}|{WORD}|{SIGN}".encode(), re.DOTALL)
# Every sign a token of its own.
COMPARED = re.compile(rf"{WORD}|{NUMBER}|{LITERAL}|\S".encode(), re.DOTALL)
# Text with its kinds; a directive is skipped as a comment is.
KINDS = re.compile(
    rf"(?P<skip>\s+|{COMMENT}|^[ \t]*\#(?:\\\n|[^\n])*)|(?P<string>{LITERAL})|(?P<number>{NUMBER})"
    rf"|(?P<word>{WORD})|(?P<sign>{SIGN})",
    re.DOTALL | re.MULTILINE,
)


def tokens(text: bytes) -> list[bytes]:
    """The tokens of a text without comments."""
    return _CODE.findall(text)
