"""A judge with two tasks of our own, and what a host is told of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.conftest import Server, write_pairs
from small import SCALE
from train.asked import COPY, WRONG, reply


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with the address of a judge, its pairs, a task, and replies to it."""
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    root = tmp_path_factory.mktemp("integrations")
    pairs = write_pairs(root / "pairs", SCALE)
    server = Server(pairs, root / "work")
    replies = {"right": reply(), "copy": COPY, "wrong": WRONG, "none": "no kernel here"}
    told = {"url": server.url, "pairs": str(pairs), "task": "test/scale", "replies": replies}
    path = root / "asked.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    yield path
    server.kill()
