"""The word lists behind the static checks, from `word_lists.toml`: what a side must not name, what it may.

Not covered: searching code for them (`kcurate.judge.checks.source`), what may be included
(`kcurate.core.headers`), PTX (`kcurate.ptx.rows`).
"""

from __future__ import annotations

from kcurate.core import resources


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_LISTS = resources.table("kcurate.judge.checks", "word_lists.toml")
_DENIED = {name: word_set(text) for name, text in _LISTS["denied"].items()}
_ALLOWED = {name: word_set(text) for name, text in _LISTS["allowed"].items()}

BUILT_IN_CALLS, HOST_FUNCTIONS = _DENIED["built_in_calls"], _DENIED["host_functions"]
ORDINARY_NAMES, FORBIDDEN_WORDS = _DENIED["ordinary_names"], _DENIED["forbidden_words"]
FORBIDDEN_PREFIXES = tuple(_LISTS["denied"]["forbidden_prefixes"].split())
ASM_WORDS, FIXED_KEYWORDS = _DENIED["asm_words"], _DENIED["fixed_keywords"]
# The fixed operand of a `##` must not be a substring of one of these: `pri ## x` could spell `printf`.
HIDDEN_WORDS = ASM_WORDS | BUILT_IN_CALLS | HOST_FUNCTIONS | FORBIDDEN_WORDS | frozenset(FORBIDDEN_PREFIXES)

ALLOWED_BUILTINS = frozenset(f"__builtin_{name}" for name in _ALLOWED["builtins"])
ALLOWED_PRAGMAS, ALLOWED_DIRECTIVES = _ALLOWED["pragmas"], _ALLOWED["directives"] | {""}
ALLOWED_ATTRIBUTES = _ALLOWED["attributes"]
ALLOWED_STANDARD_ATTRIBUTES = _ALLOWED["standard_attributes"]
