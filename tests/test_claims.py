"""docs/data/claims.jsonl: what README.md, docs/cli.md and the tutorials claim stands there and holds.

Every sentence, console line, table row and option of these pages has a line there, or is one of `NO_CLAIM`.

A line's `command` is a command of kcurate, which runs here in a folder with a workspace, once for all lines
that have it; or `pytest TEST`, a test of its own; or `see FILE`, for what was measured once. Lines that are
`slow` are tried with `--run-slow` only.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from kcurate import cli
from kcurate.core import resources

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = [json.loads(line) for line in (ROOT / "docs/data/claims.jsonl").read_text("utf-8").splitlines()]
PAGES = {
    name: " ".join((ROOT / name).read_text("utf-8").split())
    for name in sorted({row["where"] for row in CLAIMS})
}
# Pointers to other pages, words that lead to what follows, and examples, which test_examples.py parses.
NO_CLAIM = re.compile(
    r"Example: |!?\[[^]]*\]\([^)]*\)( is an index| defines| says| lists|$)|\[what a GPU adds\]|Licence$|"
    r"Apache-2.0|To help|What hostile code can and cannot do|Commands$|Changes$|See \[|"
    r"Name the slow kernel, then|\| (extra|path|kind|environment|`kcurate.toml`) \||"
    r"kcurate makes training data|`docker build"
)


def units(text: str) -> list[str]:
    """The sentences of a page, the commands of its sessions, table rows, and the entries of help texts."""
    found: list[str] = []
    block: list[str] = []
    fence: str | None = None

    def end() -> None:
        joined = " ".join(" ".join(block).split())
        block.clear()
        parts = [joined] if fence == "text" else re.split(r"(?<=[.;:])\s+(?=[A-Z`\[])", joined)
        found.extend(part.strip(" .;:") for part in parts if part)

    for line in text.splitlines():
        if line.startswith("```"):
            end()
            fence = None if fence is not None else line[3:]
        elif fence not in (None, "text"):
            found.extend([" ".join(line[2:].split())] if line.startswith("$ ") else [])
        elif not line.strip() or re.match(r"#|\|--|\| \||\w+:( kcurate |$)", line):
            end()
        else:
            if line.startswith(("|", "- ")) or (fence == "text" and re.match(r"  \S", line)):
                end()
            block.append(line)
    end()
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_is_tried(page: str) -> None:
    claims = [" ".join(row["claim"].split()) for row in CLAIMS if row["where"] == page]
    sentences = units((ROOT / page).read_text("utf-8"))
    assert len(sentences) > 20
    missing = [
        one
        for one in sentences
        if not NO_CLAIM.match(one) and not any(claim in one or one in claim for claim in claims)
    ]
    assert not missing, "no line of docs/data/claims.jsonl has:\n" + "\n".join(missing)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workspace in which nothing is judged yet, and small suites."""
    folder = tmp_path_factory.mktemp("claims")
    shutil.copytree(ROOT / "tests" / "suites", folder / "suites")
    demo, work = str(resources.sources_dir() / "demo"), str(folder / "kcurate-work")
    assert cli.run(["extract", demo, "--no-compile", "-w", work]) == 0
    return folder


def tried(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Run the command: its exit code, and what it printed."""
    words = shlex.split(command)
    with monkeypatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        code = cli.run(words[1:])
    printed = capsys.readouterr()
    return code, " ".join((printed.out + printed.err).split())


def differing(row: dict[str, Any], code: int, said: str) -> str:
    """What is not as expected."""
    if code == row["exit"] and " ".join(row["expected"].split()) in said:
        return ""
    return f"{row['command']} [{code}]: {row['expected']!r} is not in {said[-600:]!r}"


def replayed(
    made: Path, slow: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", "200")
    capsys.readouterr()
    rows = [row for row in CLAIMS if re.match(r"(\w+=\S+ )*kcurate ", row["command"])]
    rows = [row for row in rows if row.get("slow", False) == slow and row.get("needs") in (None, absent())]
    assert rows
    found = {
        command: tried(command, monkeypatch, capsys)
        for command in dict.fromkeys(row["command"] for row in rows)
    }
    wrong = [differing(row, *found[row["command"]]) for row in rows]
    assert not any(wrong), "\n".join(filter(None, wrong))


def absent() -> str | None:
    """What a line may need besides nothing: that there is no GPU."""
    return None if shutil.which("nvidia-smi") else "no gpu"


def test_quick_claims_hold(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(made, False, monkeypatch, capsys)


@pytest.mark.slow
def test_slow_claims_hold(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(made, True, monkeypatch, capsys)


def test_what_is_claimed_is_on_its_page_and_is_tried_somewhere() -> None:
    for row in CLAIMS:
        assert " ".join(row["claim"].split()) in PAGES[row["where"]], row["claim"]
        kind, _, rest = row["command"].partition(" ")
        path, _, name = rest.partition("::")
        if kind in ("pytest", "see"):
            assert (ROOT / path).exists(), row["command"]
            assert not name or re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), (
                name
            )
        else:
            assert "kcurate" in (kind, *rest.split()), row["command"]
