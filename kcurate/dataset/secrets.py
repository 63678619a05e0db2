"""What must not leave in any column: credentials, and paths of somebody's machine.

Patterns of well-known token forms and of personal folders; a hit names the column and the kind, never the
text. Not covered: e-mail addresses (copyright notices carry them) and secrets without a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_KINDS: Mapping[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "a Hub token": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})\b"),
    "a GitLab token": re.compile(r"\bglpat-[\w-]{20,}"),
    "an AWS key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a Google key": re.compile(r"\bAIza[\w-]{35}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[\w-]{10,}"),
    "a model API key": re.compile(r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}"),
    "a JSON web token": re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    "a password": re.compile(
        r"(?i)\b(?:password|passwd|secret|api_?key|access_?token)\b\s*[:=]\s*[\"'][^\"'\s]{6,}[\"']"
    ),
    "a password in an address": re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@"),
    "a local path": re.compile(
        r"(?<![\w.:/~])(?:/(?:home|Users|root|tmp|mnt|media|scratch|work|workspace|private|var/folders)"
        r"/[\w.+-]+|[A-Za-z]:\\+(?:Users|Documents and Settings)\\+\w)"
    ),
    "a local address": re.compile(r"\bfile:///?[\w~]"),
}


def findings(row: Mapping[str, Any]) -> Iterator[str]:
    """Every hit in the row's text columns as `kind in column`."""
    for column, value in row.items():
        texts = value if isinstance(value, list | tuple) else (value,)
        for kind, pattern in _KINDS.items():
            if any(isinstance(text, str) and pattern.search(text) for text in texts):
                yield f"{kind} in {column}"
