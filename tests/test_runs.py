"""The record of a run: settings, summary, and a log that never changes how the run ends."""

from __future__ import annotations

import json
import re
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcurate.core.runs import recorded
from kcurate.errors import InputError

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"


@dataclass(frozen=True)
class Inner:
    shares: tuple[float, ...] = (0.5,)


@dataclass(frozen=True)
class Config:
    workspace: Path
    rules: Inner = Inner()
    name: str | None = None


def lines(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_a_run_keeps_its_settings_and_its_summary(tmp_path: Path) -> None:
    with recorded("problem draft", tmp_path / "work") as run:
        assert not run.workspace.exists(), "nothing is written before the first checks have passed"
        run.begin(Config(tmp_path / "work"), name="given")
        summary = run.finish({"files": {"extracted": 3}})
    assert re.fullmatch(r"problem-draft-\d{8}T\d{6}\.\d{6}", run.folder.name)
    assert json.loads((run.folder / "config.json").read_bytes()) == {
        "stage": "problem draft",
        "workspace": str(tmp_path / "work"),
        "rules": {"shares": [0.5]},
        "name": "given",
    }
    written = json.loads((run.folder / "summary.json").read_bytes())
    assert (written["stage"], written["items"]) == ("problem draft", {"files": {"extracted": 3}})
    assert (summary.wall_s, summary.workspace) == (written["wall_s"], str(tmp_path / "work"))


def test_the_log_has_every_note_with_its_time(tmp_path: Path) -> None:
    told: list[str] = []
    with recorded("extract", tmp_path, note=told.append) as run:
        run.note("said before the folder is there")
        run.begin(Config(tmp_path))
        run.note("caf\u00e9 and half a pair \ud800")
        run.finish({})
    assert told == ["said before the folder is there", "caf\u00e9 and half a pair \ud800"]
    said = lines(run.folder)
    assert all(re.match(STAMP + " ", line) for line in said)
    assert [line.split(" ", 1)[1] for line in said] == [
        "said before the folder is there",
        "started",
        "caf\u00e9 and half a pair \\ud800",
        "finished",
    ]


@pytest.mark.parametrize(
    "error", [InputError("no such thing", hint="look"), ZeroDivisionError(), KeyboardInterrupt()]
)
def test_the_log_ends_with_the_traceback_of_what_ended_the_run(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, recorded("build", tmp_path) as run:
        run.begin(Config(tmp_path))
        raise error
    assert caught.value is error
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "summary.json").exists()
    text = (folder / "log").read_text()
    assert "Traceback (most recent call last)" in text
    assert type(error).__name__ in lines(folder)[-1]


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError), recorded("build", tmp_path / "work") as run:
        run.note("looking")
        raise InputError("no pairs here")
    assert not (tmp_path / "work").exists()


def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    with recorded("build", tmp_path) as run:
        run.begin(Config(tmp_path))
        (run.folder / "log").unlink()
        (run.folder / "log").mkdir()
        run.note("nobody writes this down")
        run.finish({"pairs": {"confirmed": 1}})
    with pytest.raises(ZeroDivisionError), recorded("build", tmp_path) as run:
        run.begin(Config(tmp_path))
        (run.folder / "log").unlink()
        (run.folder / "log").mkdir()
        raise ZeroDivisionError


def test_a_full_disk_ends_a_run_with_its_usual_error(tmp_path: Path, full_disk: Any) -> None:
    with pytest.raises(InputError, match=r"summary\.json: cannot write"), recorded("build", tmp_path) as run:
        run.begin(Config(tmp_path))
        full_disk()
        run.note("x" * 5000)
        run.finish({})


@pytest.fixture
def full_disk() -> Any:
    """Lets no file grow any more, from when it is called."""
    import signal

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def test_runs_of_one_second_do_not_collide(tmp_path: Path) -> None:
    folders = set()
    for _ in range(20):
        with recorded("extract", tmp_path) as run:
            run.begin(Config(tmp_path))
            folders.add(run.folder)
    assert len(folders) == 20


def test_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"), recorded("extract", tmp_path / "file") as run:
        run.begin(Config(tmp_path))
