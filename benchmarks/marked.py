"""Replace the part of a page that a script writes, between the marks that name it."""

from __future__ import annotations

from pathlib import Path


def fill(page: Path, script: str, text: str) -> None:
    """Put `text` between the page's marks of `script` (its name in this folder)."""
    begin, end = f"<!-- measured: begin (benchmarks/{script}) -->", "<!-- measured: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end, 1)[1]}")
