"""docs/cli.md is what the program says of itself."""

from __future__ import annotations

from pathlib import Path

from tools.reference import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: make docs"
