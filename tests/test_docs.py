"""Everything that README.md and docs/*.md point to exists: links, anchors, paths, modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "pairs" / "README.md",
    ROOT / "tests" / "cheats" / "README.md",
)
# Without `pairs`: every workspace has a folder of that name.
FOLDERS = ("benchmarks", "docs", "kcurate", "schemas", "sources", "tests", "tools")
PYTHON = tuple(
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in ("benchmarks", "kcurate", "tests", "tools")
    for path in (ROOT / folder).rglob("*.py")
)
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def spans(page: Path) -> Iterator[str]:
    """Every inline code span."""
    yield from re.findall(r"`([^`\n]+)`", prose(page))


def missing_module(name: str) -> bool:
    """Whether a dotted name is neither a module nor a name that a module's text mentions."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:end])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.is_file():
            return any(part not in file.read_text(encoding="utf-8") for part in parts[end:])
    return True


@by_page
def test_links_and_anchors_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


@by_page
def test_paths_exist(page: Path) -> None:
    for span in spans(page):
        for word in span.split():
            path = re.sub(r"[<{][^>}]*[>}]", "*", word).rstrip(",:;")
            if path.split("/")[0] in FOLDERS and "/" in path and "..." not in path:
                assert any(ROOT.glob(path.rstrip("/"))), f"{page.name}: {word}"


@by_page
def test_modules_exist(page: Path) -> None:
    for span in spans(page):
        for name in re.findall(r"(?<![\w/.-])kcurate(?:\.[A-Za-z_]\w*)+", span):
            assert not missing_module(name.removesuffix(".toml")), f"{page.name}: {name}"
        if re.fullmatch(r"[\w/]+\.py", span):
            assert any(path.endswith(f"/{span}") for path in PYTHON), f"{page.name}: {span}"
