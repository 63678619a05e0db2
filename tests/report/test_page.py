"""The page as a file: every pair in it, nothing fetched, nothing that others wrote read as markup."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from dataset.making import H200, pair, verdict, workspace

from kcurate.core import store
from kcurate.errors import InputError
from kcurate.records import Outcome
from kcurate.report.entries import entry, line, part
from kcurate.report.page import render
from kcurate.report.plots import MAX_WHISKERS, bandwidth, by_group, ladder, log_scale
from kcurate.report.stage import ReportConfig, run

HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror=owned=1> <!-- /*SCRIPT*/ <!--PARTS-->"


class Reader(HTMLParser):
    """The elements of a page, and the text of those with an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self._inside = given.get("id") or ""
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def unpacked(page: Reader) -> list[dict[str, Any]]:
    """The parts of a page's pairs, in the order of its lines."""
    groups = json.loads(page.texts["parts"])["packed"]
    return [one for group in groups for one in json.loads(zlib.decompress(b64decode(group)))]


def test_the_headline_says_how_many_on_what_and_with_which_outcome() -> None:
    bad = replace(verdict(pair("demo/b", 2)), outcome=Outcome.MISMATCH)
    bad = replace(bad, environment=replace(bad.environment, device="<b>GPU</b>"))
    entries = [entry(pair("demo/a", 1), [verdict(pair("demo/a", 1))]), entry(pair("demo/b", 2), [bad])]
    said = (
        "2 pairs in 2 families and 1 domain (&lt;b&gt;GPU&lt;/b&gt;, NVIDIA H200): 1 confirmed, 1 mismatch."
    )
    assert said in render(entries)


def test_a_pair_that_cannot_be_read_is_counted_and_not_shown(tmp_path: Path) -> None:
    space = workspace(tmp_path, [(pair(f"demo/{i}", i), Outcome.CONFIRMED) for i in (1, 2)])
    (space.pairs / "demo/1/pair.json").write_text("{")
    notes: list[str] = []
    summary = run(ReportConfig(space.root), note=notes.append)
    assert summary.items == {"pairs": {"confirmed": 1, "malformed": 1}}
    assert notes == [f"left out: {space.pairs}/demo/1/pair.json: not JSON: {notes[0].partition('JSON: ')[2]}"]
    shown = Reader((tmp_path / "report.html").read_text()).texts["lines"]
    assert [one["id"] for one in json.loads(shown)] == ["demo/2"]
    (space.pairs / "demo/2/fast.cu").unlink()
    assert run(ReportConfig(space.root)).items == {"pairs": {"malformed": 2}}


def test_the_page_holds_every_pair_and_fetches_nothing(tmp_path: Path) -> None:
    pairs = [(pair(f"demo/{i}", i + 1), Outcome.CONFIRMED if i else None) for i in range(3)]
    space = workspace(tmp_path, pairs)
    assert run(ReportConfig(space.root)).items == {"pairs": {"confirmed": 2, "not_judged": 1}}
    page = (tmp_path / "report.html").read_text()
    read = Reader(page)
    assert [one["id"] for one in json.loads(read.texts["lines"])] == ["demo/0", "demo/1", "demo/2"]
    assert unpacked(read)[1]["slow"] == pairs[1][0].slow.code
    assert all(address.startswith(("#", "data:")) for address in read.addresses)
    assert "url(" not in page and not re.search(r"\b(?:fetch|import)\(|XMLHttpRequest|https?://", page)
    assert "default-src 'none'" in page


def test_what_others_wrote_stays_text() -> None:
    one = pair("demo/a", description=HOSTILE, family=HOSTILE, techniques=("<b>bold</b>",))
    one = replace(one, id=f"demo/{HOSTILE}", slow=replace(one.slow, code=HOSTILE))
    clean, hostile = (Reader(render([entry(each, [verdict(each)])])) for each in (pair("demo/a"), one))
    assert hostile.tags == clean.tags
    assert unpacked(hostile)[0]["slow"] == HOSTILE
    assert json.loads(hostile.texts["lines"])[0]["text"] == HOSTILE


def test_history_keeps_verdicts_of_other_devices_and_of_other_code() -> None:
    old, now = pair("demo/a", 1), pair("demo/a", 2)
    other = replace(verdict(now, ratio=3.0), environment=replace(H200, device="NVIDIA L4"))
    made = entry(now, [verdict(old, ratio=9.0), verdict(now, Outcome.MISMATCH), verdict(now), other])
    shown = part(made)["verdicts"]
    assert [(one["device"], one["outcome"], one["current"]) for one in shown] == [
        ("NVIDIA L4", "confirmed", True),
        ("NVIDIA H200", "confirmed", True),
        ("CPU", "mismatch", True),
        ("NVIDIA H200", "confirmed", False),
    ]
    # The H200 confirmed it too: the history begins with the newest verdict, the table shows the standing one.
    assert line(made)["speedup"] == 1.5 and line(made)["device"] == "NVIDIA H200"
    assert line(made)["devices"] == ["NVIDIA H200", "CPU", "NVIDIA L4"]
    assert line(made)["others"] == [["CPU", "mismatch", None], ["NVIDIA L4", "confirmed", 3.0]]
    assert line(made)["copy"] == 0.8
    stale = entry(now, [verdict(old)])
    assert (stale.outcome, line(stale)["speedup"]) == ("stale", None)


def test_a_page_without_a_measured_speedup_says_so() -> None:
    one = pair("demo/a")
    assert "No speedup has been measured" in render([entry(one, [verdict(one, Outcome.CORRECT)])])


@pytest.mark.parametrize("count", [1, 2, 50, 3 * MAX_WHISKERS])
def test_plots_hold_any_number_of_pairs(count: int) -> None:
    first = line(entry(pair("demo/a"), [verdict(pair("demo/a"))]))
    lines = [
        {
            **first,
            "id": f"demo/{i}",
            "speedup": 1.2 + i,
            "low": 1.1 + i,
            "high": 1.3 + i,
            "domain": f"d{i % 60}",
        }
        for i in range(count)
    ]
    dots = ladder(lines).count('class="dot"')
    assert dots == count if count <= MAX_WHISKERS else 0 < dots <= MAX_WHISKERS
    grouped = by_group(lines, "domain", lambda one: (str(one["domain"]),))
    assert grouped.count('class="half"') == min(count, 40)
    assert bandwidth(lines).count('class="dot"') == count
    assert "nan" not in grouped + ladder(lines)


def test_a_scale_keeps_what_is_outside_at_its_ends() -> None:
    place = log_scale([1.0, 100.0], 0, 10)
    assert place(0.001) == 0 and place(1e9) == 10 and place.ticks() == [1, 2, 5, 10, 20, 50, 100]


def test_the_page_goes_where_it_is_told(tmp_path: Path) -> None:
    space = workspace(tmp_path / "work", [(pair("demo/a"), None)])
    run(ReportConfig(space.root, out=tmp_path / "pages" / "a.html"))
    assert (tmp_path / "pages" / "a.html").exists() and not (space.root / "report.html").exists()
    with pytest.raises(InputError, match="no pairs here"):
        run(ReportConfig(tmp_path / "empty"))
    assert store.find_candidates(space.pairs)
