"""Everything that README.md and docs/*.md point to exists: links, anchors, paths, modules."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from benchmarks import scale
from kcurate import __version__
from tools.site_hooks import on_page_markdown

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "CHANGELOG.md",
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


def test_the_site_lists_every_page() -> None:
    """`make site` needs mkdocs and fails for a page that is not in the navigation; this says so earlier."""

    def pages(entries: list[dict[str, Any]]) -> Iterator[str]:
        for entry in entries:
            for target in entry.values():
                yield from [target] if isinstance(target, str) else pages(target)

    listed = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    docs = ROOT / "docs"
    there = {path.relative_to(docs).as_posix() for path in (*docs.glob("*.md"), *docs.glob("results/*.md"))}
    assert sorted(listed) == sorted(there)


def test_a_link_that_leaves_the_site_keeps_its_path() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="results/judge.md"))
    text = "[rows](../data/a.jsonl) [judge](../judge.md#limits) ![x](../../pairs/y.svg) [net](https://a.b/c)"
    here = on_page_markdown(text, page=page, config=SimpleNamespace(repo_url=None))
    assert (
        here
        == "rows (`docs/data/a.jsonl`) [judge](../judge.md#limits) x (`pairs/y.svg`) [net](https://a.b/c)"
    )
    there = on_page_markdown(text, page=page, config=SimpleNamespace(repo_url="https://h/o/r"))
    assert "[rows](https://h/o/r/blob/HEAD/docs/data/a.jsonl)" in there


def test_the_changelog_and_the_citation_name_this_version() -> None:
    released = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$",
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    )
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert released[0] == (__version__, citation["date-released"].isoformat())
    assert citation["version"] == __version__


def test_the_plan_of_scale_is_computed_from_the_rates() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    table = scale.plan(count=10_000_000, gpus=1000, cores=16_000, gpu_hour=3.0, core_hour=0.04)
    assert f"plan -->\n\n{table}\n\n" in page
    most = max(json.loads(line)["rows"] for line in scale.MEASURED.read_text().splitlines())
    assert f"| now | {most:,} |" in page, "the rate of the first step stands in the table of costs"


def test_a_plan_of_half_the_price_and_twice_the_cores() -> None:
    def last(**given: float) -> list[float]:
        values = {"count": 1000, "gpus": 10, "cores": 100, "gpu_hour": 2.0, "core_hour": 0.1, **given}
        row = scale.plan(**values).splitlines()[-1]  # type: ignore[arg-type]
        return [float(cell.replace(",", "")) for cell in row.split("|")[4:8]]

    many = last(count=10**9)
    assert last(count=10**9, gpu_hour=1.0, core_hour=0.05)[3] == pytest.approx(many[3] / 2, rel=1e-4)
    assert last(count=10**9, gpus=20, cores=200)[2] == pytest.approx(many[2] / 2, rel=1e-4)
    assert last(count=2 * 10**9)[:2] == pytest.approx([2 * cost for cost in many[:2]], rel=1e-4)
