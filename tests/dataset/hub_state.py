"""What the small Hub of the tests holds: repositories, contents, requests, and which of them are to fail."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Repository:
    private: bool
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    def add(self, tree: dict[str, bytes]) -> str:
        listing = json.dumps({path: git_hash(content) for path, content in sorted(tree.items())})
        oid = hashlib.sha1(f"{len(self.commits)} {listing}".encode(), usedforsecurity=False).hexdigest()
        self.commits.append((oid, tree))
        return oid

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    def tree(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        oid = self.head if revision in ("main", "HEAD") else self.tags.get(revision, revision)
        return next((found for found in self.commits if found[0] == oid), None)


@dataclass
class Failure:
    path: str
    times: int
    status: int | None


@dataclass
class Hub:
    """The server's state; `url` is its address."""

    url: str = ""
    repos: dict[str, Repository] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    corrupt: str | None = None
    meanwhile: Callable[[str], None] = lambda path: None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def fail(self, path: str, times: int = 1, status: int | None = None) -> None:
        """Let requests to a path fail: with a status, or (None) by cutting the connection."""
        self.failures.append(Failure(path, times, status))

    def failure(self, path: str) -> Failure | None:
        for one in self.failures:
            if one.times and re.search(one.path, path):
                one.times -= 1
                return one
        return None
