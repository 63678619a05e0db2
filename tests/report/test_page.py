"""The page as a file: every pair in it, nothing fetched, nothing that others wrote read as markup."""

from __future__ import annotations

import ast
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

from kcurate import judge
from kcurate.core import store
from kcurate.errors import InputError
from kcurate.judge import sanitizer
from kcurate.judge.checks import static
from kcurate.records import Origin, Outcome
from kcurate.report.entries import entry, line, part, three
from kcurate.report.stage import CHECKS, ReportConfig, render, run
from kcurate.verdicts.keys import PROTOCOL

HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror=owned=1> <!-- /*SCRIPT*/ <!--PARTS-->"


class Reader(HTMLParser):
    """The elements of a page, and the text of those with an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: dict[str, str] = {}
        self._terms: list[tuple[str, str]] = []
        self._tag = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._tag = tag if tag in ("dt", "dd") else self._tag
        given = dict(attrs)
        self._inside = given.get("id") or ""
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data
        if self._tag:
            self._terms.append((self._tag, data))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        self._tag = "" if tag in ("dt", "dd") else self._tag

    def pairs(self) -> dict[str, str]:
        """The terms of the page's lists and what stands beside each."""
        found: dict[str, str] = {}
        for tag, text in self._terms:
            if tag == "dt":
                name = text
            else:
                found[name] = " ".join([*found.get(name, "").split(), *text.split()])
        return found


def unpacked(page: Reader) -> list[dict[str, Any]]:
    """The parts of a page's pairs, in the order of its lines."""
    groups = json.loads(page.texts["parts"])["packed"]
    return [one for group in groups for one in json.loads(zlib.decompress(b64decode(group)))]


def test_the_headline_says_how_many_how_much_faster_on_what_and_measured_with_what() -> None:
    bad = replace(verdict(pair("demo/b", 2)), outcome=Outcome.MISMATCH)
    bad = replace(bad, environment=replace(bad.environment, device="<b>GPU</b>"))
    good = [
        entry(pair(f"demo/{i}", i + 5), [verdict(pair(f"demo/{i}", i + 5), ratio=i)]) for i in (2, 3, 900)
    ]
    read = Reader(render([*good, entry(pair("demo/b", 2), [bad])], {"written": "2026-01-02"}))
    assert read.pairs() == {
        "pairs": "4 4 families in 1 domain",
        "median speedup": "3.00 times from 2.00 to 900 times as fast",
        "outcomes": "3 confirmed 1 mismatch",
        "judged on": "NVIDIA H200 (3) <b>GPU</b> (1)",
        "driver": "580.1",
        "protocol": PROTOCOL,
        "written": "2026-01-02",
    }


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
    read = Reader(render([entry(one, [verdict(one, Outcome.CORRECT)])])).pairs()
    assert read["speedup"] == "not measured that needs a GPU (kcurate validate)"
    assert (read["outcomes"], read["judged on"]) == ("1 correct", "CPU")
    assert Reader(render([])).pairs()["outcomes"] == "none"


def test_a_pair_that_failed_says_what_was_found() -> None:
    one = pair("demo/a")
    bad = replace(verdict(one, Outcome.MISMATCH), detail="y[3] is 1 instead of 2", side="fast")
    assert line(entry(one, [bad]))["why"] == "y[3] is 1 instead of 2"
    (shown,) = part(entry(one, [bad]))["verdicts"]
    assert (shown["sentence"], shown["side"], shown["emulated"]) == ("Its results are wrong", "fast", True)
    assert line(entry(one, [verdict(one)]))["why"] == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(804.81, "805"), (6.1, "6.10"), (0.03524, "0.0352"), (12345, "12,300"), (1e-5, "0.0000100"), (0, "0")],
)
def test_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert three(value) == text


def test_the_environment_has_names_and_units_that_people_read() -> None:
    one = pair("demo/a")
    details = {"sm_clock_mhz": 1980, "copy_bytes_per_s": 4.26e12, "temperature_c": 40, "timing_settled": True}
    known = replace(verdict(one), environment=replace(H200, details=details))
    (shown,) = part(entry(one, [known]))["verdicts"]
    assert {
        "SM clock": "1,980 MHz",
        "copy": "4,260,000,000,000 bytes per second",
        "temperature": "40 °C",
        "timing settled": "yes",
    }.items() <= shown["environment"].items()


def test_origin_says_where_the_sides_come_from_and_what_was_guessed_once() -> None:
    curated = part(entry(pair("demo/a", origin=Origin("curated")), []))
    assert curated["origin"]["sides"] == "both written for kcurate" and not curated["inferred"]
    own = pair(
        "own/a",
        origin=Origin("natural", "own", kernels=("k/a", "k/b"), problem="drafted"),
        description="a.cu:a as the slow side, b.cu:b as the fast one.",
    )
    assert {name for name, value in part(entry(own, []))["origin"].items() if value} == {"sides"}
    assert part(entry(own, []))["inferred"].startswith("Guessed from the code: sizes, inputs")
    assert part(entry(own, []))["launches"] == [
        "slow side: scale<<<ceil_div(n, 4096), 128>>>",
        "fast side: scale<<<ceil_div(n, 128), 128>>>",
    ]
    assert line(entry(own, []))["files"] == own.description and not line(entry(pair("demo/a"), []))["files"]
    made = part(entry(pair("other/a"), []))["origin"]
    assert made["sides"] == "slow side by rewrite rule: unroll" and made["suite"] == "demo"


def test_every_check_that_the_judge_records_is_explained() -> None:
    recorded = {*static.ALL_CHECKS, *sanitizer.TOOLS}
    for path in Path(judge.__path__[0]).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("case.passed"):
                texts = (node for arg in call.args for node in ast.walk(arg))
                recorded |= {str(node.value) for node in texts if isinstance(node, ast.Constant)}
    recorded.discard("None")
    assert recorded == set(CHECKS)
    assert json.loads(Reader(render([])).texts["parts"])["checks"] == CHECKS


def test_the_page_goes_where_it_is_told(tmp_path: Path) -> None:
    space = workspace(tmp_path / "work", [(pair("demo/a"), None)])
    run(ReportConfig(space.root, out=tmp_path / "pages" / "a.html"))
    assert (tmp_path / "pages" / "a.html").exists() and not (space.root / "report.html").exists()
    with pytest.raises(InputError, match="no pairs here"):
        run(ReportConfig(tmp_path / "empty"))
    assert store.find_candidates(space.pairs)
