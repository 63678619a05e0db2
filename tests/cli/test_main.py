"""The command as a user runs it: arguments, variables, pipes and signals; in its own process where needed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kcurate
from kcurate import cli
from kcurate.cli.app import build
from kcurate.core import store
from kcurate.errors import BackendError
from kcurate.records import Candidate, Origin, Side

COMMAND = (sys.executable, "-m", "kcurate")


def kcurate_command(
    *args: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, with these variables and no other setting."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        if cwd is not None:
            patch.chdir(cwd)
        for name in os.environ:
            if name.startswith("KCURATE_"):
                patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        code = cli.run(args)
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())


def one_line(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    return done.stderr


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "pairs" / "demo" / "scale"
    side = Side("// a line of code\n" * 3000, ())
    store.write_candidate(
        folder, Candidate("demo/scale", "f", "d", None, Origin("curated"), (), "what", None, side, side)
    )
    return folder


def test_version_is_the_packages() -> None:
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"kcurate {kcurate.__version__}\n")


def test_unknown_command_is_a_usage_error() -> None:
    done = kcurate_command("explode")
    assert done.returncode == 2
    assert "No such command 'explode'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("args", [["show"], ["show", "--nope", "x"], ["build", "--json=maybe"]])
def test_wrong_options_are_usage_errors(args: list[str]) -> None:
    assert kcurate_command(*args).returncode == 2


def test_empty_path_is_a_usage_error(pair: Path) -> None:
    done = kcurate_command("validate", "", cwd=pair)
    assert done.returncode == 2
    assert "an empty path" in done.stderr


def test_doctor_json_is_one_object() -> None:
    done = kcurate_command("doctor", "--json")
    assert done.returncode == 0
    findings = json.loads(done.stdout)["findings"]
    assert findings[0]["topic"] == "Python"
    assert all(finding["ok"] or finding["hint"] for finding in findings)


def test_doctor_never_shows_a_secret() -> None:
    done = kcurate_command("doctor", ANTHROPIC_API_KEY="sk-very-secret", HF_TOKEN="hf_very_secret")
    assert "very" not in done.stdout + done.stderr
    assert "ANTHROPIC_API_KEY is set" in done.stdout


def test_wrong_path_is_one_line(tmp_path: Path) -> None:
    assert "no such pair or kernel" in one_line(kcurate_command("show", "nothing-here", cwd=tmp_path))
    nowhere = str(tmp_path / "nothing-here")
    assert one_line(kcurate_command("show", nowhere, cwd=tmp_path)).startswith(f"error: {nowhere}: no such")
    assert "no pairs here" in one_line(kcurate_command("build", cwd=tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", [("extract",), ("deopt",), ("problem", "check")])
def test_an_unreadable_path_is_one_line(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = tmp_path / "problem.toml"
    locked.touch(mode=0)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked)  # root may read everything
    assert cli.run([*args, str(locked), "-w", str(tmp_path / "work")]) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--techniques", "nope"), "--techniques: does not apply to rules"),
        (("--dry-run",), "--dry-run: does not apply to rules"),
        (("--model", "claude", "--rules", "unroll"), "--rules: does not apply to models"),
    ],
)
def test_deopt_refuses_options_without_effect(pair: Path, args: tuple[str, ...], said: str) -> None:
    work = pair.parents[2]
    assert said in one_line(kcurate_command("deopt", str(pair), "-w", str(work), *args), 2)
    assert not (work / "runs").exists()


def test_settings_for_models_do_not_keep_rules_from_running(pair: Path) -> None:
    work = str(pair.parents[2])
    done = kcurate_command("deopt", str(pair), "-w", work, "--fail-on", "none", KCURATE_ROUNDS="2")
    assert done.returncode == 0


def test_broken_record_is_one_line(pair: Path) -> None:
    (pair / "pair.json").write_text("{}")
    assert "is a required property" in one_line(kcurate_command("show", str(pair)))


def test_text_that_cannot_be_written_is_one_line(pair: Path) -> None:
    path = pair / "pair.json"
    path.write_text(path.read_text().replace('"what"', r'"\ud800"'))
    assert "pair.json: not JSON" in one_line(kcurate_command("show", str(pair)))


def test_closed_stdout_is_one_line() -> None:
    line = f"{sys.executable} -m kcurate doctor >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert "stdout: is closed" in one_line(done)


def test_settings_order_is_flag_environment_file_default(pair: Path) -> None:
    work = pair.parents[2]
    (work / "kcurate.toml").write_text("[build]\nbuilt_in = 7\n")
    assert "kcurate.toml: built_in" in one_line(kcurate_command("build", "-w", str(work)), 2)
    (work / "kcurate.toml").write_text("[show]\njson = true\n")
    shown = kcurate_command("show", "scale", "-w", str(work))
    assert json.loads(shown.stdout)["pair"]["id"] == "demo/scale"
    assert kcurate_command("show", "scale", "-w", str(work), KCURATE_JSON="0").stdout.startswith("demo/scale")
    done = kcurate_command("show", "scale", "--json", KCURATE_WORKSPACE=str(work), KCURATE_SHOW_JSON="0")
    assert json.loads(done.stdout)["pair"]["id"] == "demo/scale"


def test_unknown_key_or_variable_is_named(tmp_path: Path) -> None:
    (tmp_path / "kcurate.toml").write_text("colour = 1\n")
    assert "unknown key 'colour'" in one_line(kcurate_command("build", "-w", str(tmp_path)), 2)
    assert "KCURATE_WORKSPCE: unknown setting" in one_line(kcurate_command("build", KCURATE_WORKSPCE="x"), 2)


def test_help_works_despite_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "kcurate.toml").write_text("colour = 1\n")
    assert kcurate_command("build", "-w", str(tmp_path), "--help").returncode == 0


def test_closed_pipe_is_quiet(pair: Path) -> None:
    line = f"{sys.executable} -m kcurate show {pair} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["demo/scale", "141"]
    assert done.stderr == ""


def test_full_disk_is_one_line(pair: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "show", str(pair)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device\n"


def test_interrupt_ends_with_130(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\nfrom kcurate import cli\nfrom kcurate.lookup import doctor\n"
        # A shell lets what it starts in the background ignore this signal, and so do we then.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def wait():\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "doctor.examine = wait\ncli.main(['doctor'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == "error: interrupted\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kcurate.lookup.doctor.examine", broken)
    with pytest.raises(ZeroDivisionError):
        cli.run(["doctor"])


def test_known_error_gives_what_where_and_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise BackendError("broke\ninto lines", where="the GPU", hint="see the log")

    monkeypatch.setattr("kcurate.lookup.doctor.examine", broken)
    assert cli.run(["doctor"]) == 1
    assert capsys.readouterr().err == "error: the GPU: broke into lines (see the log)\n"


@pytest.mark.parametrize("args", [["--help"], ["-h"], []])
def test_the_roots_help_reads_no_options_and_is_the_same(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    cli.run(args)
    quick = "".join(capsys.readouterr())
    whole: Any = typer.main.get_command(build())
    short: Any = typer.main.get_command(build(args))
    assert not short.commands["list"].params
    assert whole.commands["list"].params
    whole(["--help"], prog_name="kcurate", standalone_mode=False)
    assert capsys.readouterr().out.strip() == quick.strip()


def test_a_bad_variable_is_blamed_and_not_its_option(tmp_path: Path) -> None:
    for name in ("KCURATE_JOBS", "KCURATE_EXTRACT_JOBS"):
        for value in ("many", "-1"):
            line = one_line(kcurate_command("extract", str(tmp_path), **{name: value}), 2)
            assert line.startswith(f"error: environment variable {name}: "), line
            assert line.endswith("(for --jobs)\n")
    assert "--jobs" in kcurate_command("extract", str(tmp_path), "--jobs", "-1", KCURATE_JOBS="2").stderr
    backend = kcurate_command("validate", cwd=tmp_path, KCURATE_BACKEND="zz")
    assert "variable KCURATE_BACKEND: 'zz' is not one of 'auto'" in one_line(backend, 2)


def test_quiet_has_errors_only_and_verbose_has_every_item(pair: Path) -> None:
    work = str(pair.parents[2])
    list_ = ("report", "-w", work)
    plain, quiet = kcurate_command(*list_), kcurate_command(*list_, "-q")
    assert "open " in plain.stderr and quiet.stderr == ""
    assert quiet.stdout.splitlines()[1:] == plain.stdout.splitlines()[1:]
    told = kcurate_command(*list_, "-v").stderr
    assert "kcurate.core.runs: pairs demo/scale: not_judged: not judged yet" in told
    assert "run folder" in told
    assert kcurate_command("show", "nothing", "-q", "-w", work).stderr.startswith("error: nothing")
    assert kcurate_command(*list_, KCURATE_QUIET="1").stderr == ""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workspace that holds a kernel and a pair."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "one.cu").write_text("__global__ void lonely(int *x) { x[threadIdx.x] = 1; }")
    assert cli.run(["extract", str(folder / "one.cu"), "--no-compile", "-w", str(folder / "work")]) == 0
    side = Side("// nothing", ())
    store.write_candidate(
        folder / "work" / "pairs" / "mine" / "scale",
        Candidate("mine/scale", "f", "d", None, Origin("curated"), (), "", None, side, side),
    )
    return folder


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("kcurate vali", "validate"),
        ("kcurate validate --ag", "--again"),
        ("kcurate problem draft --bud", "--budget-usd"),
        ("kcurate deopt --direction tr", "translate"),
        ("kcurate build --fail-on secret,conta", "secret,contaminated"),
        ("kcurate validate deep-learning/softmax-bl", "deep-learning/softmax-block-online"),
        ("kcurate validate -w work min", "mine/scale"),
        ("kcurate report -w work mine", "mine/scale"),
        ("kcurate tune reduction-scan/reduce-sum-sh", "reduction-scan/reduce-sum-shuffle"),
        ("kcurate show -w work several", "lonely"),
        ("kcurate deopt -w work several", "lonely"),
        ("kcurate problem draft -w work several", "lonely"),
        ("kcurate problem check -w work several", "lonely"),
        ("kcurate list pairs -w work mi", "mine/scale"),
        ("kcurate list pairs --outcome confirmed,mism", "confirmed,mismatch"),
        ("kcurate list runs --outcome interr", "interrupted"),
        ("kcurate list --suite parb", "parboil"),
        ("kcurate extract --suite rod", "rodinia"),
    ],
)
def test_a_shell_is_offered_commands_options_and_values(
    shell: str,
    line: str,
    offered: str,
    several: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = {
        "_KCURATE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    monkeypatch.chdir(several)
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        cli.run([])
    assert not ended.value.code
    said = capsys.readouterr()
    assert offered in said.out
    assert said.err == ""


def test_bash_completes_through_the_script_that_it_installs(several: Path) -> None:
    """The script of `--show-completion`, called as bash calls it for a line with the cursor at its end."""
    program = several / "kcurate"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kcurate "$@"\n')
    program.chmod(0o755)
    line = (
        'eval "$(_KCURATE_COMPLETE=source_bash kcurate)"; COMP_WORDS=(kcurate validate -w work min);'
        ' COMP_CWORD=4; "$(complete -p kcurate | sed "s/.*-F \\([^ ]*\\).*/\\1/")" kcurate;'
        ' echo "${COMPREPLY[@]}"'
    )
    path = f"{several}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "PATH": path}, cwd=several,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["mine/scale"], done.stderr
