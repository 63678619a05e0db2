"""Where it may not or cannot listen, what a machine lacks: one line each; and the file of jobs by itself."""

from __future__ import annotations

import importlib.util
import json
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from kcurate import cli
from kcurate.core import store
from kcurate.errors import InputError, MissingDependencyError
from kcurate.judge.workers.inside import isolation
from kcurate.lookup import doctor
from kcurate.serve import stage
from kcurate.serve.job_log import JobLog
from kcurate.serve.stage import ServeConfig

ROOT = Path(__file__).resolve().parent.parent.parent


def refused(capsys: pytest.CaptureFixture[str], *options: str, code: int) -> str:
    assert cli.run(["serve", "--backend", "emulator", *options]) == code
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def installed() -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_machines_need_a_token(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--host", host, "-w", str(tmp_path), code=2)
    what = "whoever reaches this address could use the judge (give --token-file FILE)"
    assert line == f"error: --host {host}: {what}"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a token"),
        ("a b", "not a token"),
        (None, "cannot read: No such file or directory (such as openssl"),
    ],
)
def test_a_token_file_has_one_token(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    assert said in refused(capsys, "--token-file", str(path), "-w", str(tmp_path), code=1)


@pytest.mark.usefixtures("installed")
def test_a_taken_port_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refused(capsys, "--port", str(port), "-w", str(tmp_path), code=1)
    assert f"--port {port}: the port is taken (choose another --port" in line


@pytest.mark.usefixtures("installed")
def test_a_gpu_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcurate.backends.gpu_count", lambda: 0)
    with pytest.raises(MissingDependencyError, match="there is no GPU here"):
        stage.run(ServeConfig(tmp_path, "cuda", "0"))


def test_an_absent_extra_is_one_line_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage, "PACKAGES", ("no_such_package",))
    line = refused(capsys, "-w", str(tmp_path), code=1)
    assert line == "error: kcurate serve: not installed: no_such_package (pip install 'kcurate[serve]')"


def job(name: str, state: str) -> dict[str, Any]:
    return {"id": name, "state": state, "results": []}


def test_jobs_come_back_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    log = JobLog(path)
    first = log.take("a", {"n": 1})
    log.take("b", {"n": 2})
    log.end("b", job("b", "done"))
    log.leave("c", log.take("c", {"n": 3}))
    log.take("a", {"n": 4})
    log.leave("a", first)
    assert log.find("b") == job("b", "done") and log.find("a") is None
    with pytest.raises(InputError, match="another kcurate serve has it"):
        JobLog(path)
    log.close()
    path.write_bytes(path.read_bytes() + b'{"id": "d", "requ')
    again = JobLog(path)
    assert again.open_jobs() == {"a": ({"n": 4}, None)}
    assert again.find("b") == job("b", "done")
    again.end("a", job("a", "failed"))
    assert again.find("a") == job("a", "failed")
    again.close()


def test_a_job_is_found_though_another_ended_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.append_line

    def beside_another(path: Path, text: str) -> int:
        end = append(path, text)
        append(path, json.dumps({"id": "other", "job": {"state": "done"}}))
        return end

    log = JobLog(tmp_path / "jobs.jsonl")
    monkeypatch.setattr(store, "append_line", beside_another)
    log.end("one", {"state": "refused"})
    assert log.find("one") == {"state": "refused"}
    log.close()


def test_the_openapi_document_is_current() -> None:
    if importlib.util.find_spec("fastapi") is None:
        pytest.skip("the extra serve is not installed")
    from kcurate.serve.app import make

    path = ROOT / "docs" / "serve-openapi.json"
    command = "python -m kcurate.serve.app docs/serve-openapi.json"
    assert json.loads(path.read_bytes()) == make(cast(Any, None)).openapi(), f"run: {command}"


def test_without_confinement_this_machine_alone_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "confined", lambda: False)
    notes: list[str] = []
    stage._require_confinement(ServeConfig(Path(), host="127.0.0.1"), notes.append)
    assert "compilers can read every file" in notes[0]
    with pytest.raises(InputError, match="compilers can read every file"):
        stage._require_confinement(ServeConfig(Path(), host="192.0.2.1"), notes.append)
    monkeypatch.setattr(isolation, "confined", lambda: True)
    stage._require_confinement(ServeConfig(Path(), host="192.0.2.1"), notes.append)
    assert len(notes) == 1


def test_doctor_says_how_to_get_confinement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "confined", lambda: False)
    (files,) = (finding for finding in doctor._isolation() if finding.topic == "isolation: files")
    assert not files.ok
    assert "Landlock" in str(files.hint)
    assert "user namespaces" in str(files.hint)
