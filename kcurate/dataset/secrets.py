"""Finds credentials and paths of a local machine in any column of a row; neither may be published.

Patterns match well-known token formats and personal folders. A finding names the column and the kind, never
the text. Not covered: e-mail addresses (copyright notices have them) and secrets without a known format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_FOLDERS = (
    *("home", "Users", "root", "tmp", "mnt", "media"),
    *("scratch", "work", "workspace", "private", "var/folders"),
)
# Kind to (lower-case words, pattern). Every match has one of the words, which are found much faster.
KINDS: Mapping[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    "a private key": (("private key",), re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    "a Hub token": (("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    "a GitHub token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})\b"),
    ),
    "a GitLab token": (("glpat-",), re.compile(r"\bglpat-[\w-]{20,}")),
    "an AWS key": (("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    "a Google key": (("aiza",), re.compile(r"\bAIza[\w-]{35}")),
    "a Slack token": (("xox",), re.compile(r"\bxox[abeoprs]-[\w-]{10,}")),
    "a model API key": (("sk-",), re.compile(r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}")),
    "a JSON web token": (("eyj",), re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    "a password": (
        ("passw", "secret", "key", "token"),
        re.compile(
            r"(?i)\b(?:password|passwd|secret|api_?key|access_?token)\b\s*[:=]\s*[\"'][^\"'\s]{6,}[\"']"
        ),
    ),
    "a password in an address": (("://",), re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@")),
    "a local path": (
        (*(f"/{folder.lower()}/" for folder in _FOLDERS), ":\\"),
        re.compile(
            rf"(?<![\w.:/~])(?:/(?:{'|'.join(_FOLDERS)})/[\w.+-]+"
            r"|[A-Za-z]:\\+(?:Users|Documents and Settings)\\+\w)"
        ),
    ),
    "a local address": (("file://",), re.compile(r"\bfile:///?[\w~]")),
}


def findings(row: Mapping[str, Any]) -> Iterator[str]:
    """Every finding in the row's text columns, as `kind in column`."""
    columns = {
        column: [
            str(text)
            for text in (value if isinstance(value, list | tuple) else (value,))
            if isinstance(text, str | dict)
        ]
        for column, value in row.items()
    }
    whole = "\n".join(text for texts in columns.values() for text in texts)
    lowered = whole.casefold()
    kinds = {
        kind: pattern
        for kind, (words, pattern) in KINDS.items()
        if any(word in lowered for word in words) and pattern.search(whole)
    }
    for column, texts in columns.items():
        for kind, pattern in kinds.items():
            if any(map(pattern.search, texts)):
                yield f"{kind} in {column}"
