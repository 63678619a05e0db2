"""Runs a program with a recorder in it. The program's output, input and exit code are not affected.

Not covered: what the recorders do (`native/`), building them (`building`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcurate.capture import building
from kcurate.capture.settings import Limits, Recorder
from kcurate.errors import InputError, MissingDependencyError
from kcurate.records.capture import CaptureSource

GPU = Path("/dev/nvidiactl")
# The folder with the recorder of Triton's launches, for `PYTHONPATH`.
INJECTED = Path(__file__).with_name("injected")
# How long a program may take to end after SIGTERM.
ENDING_S = 5.0
# Signals that end the program but not kcurate, which first writes what was recorded.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """The exit code (128 plus the number of the signal that ended it), and whether kcurate got a signal."""

    code: int
    interrupted: bool


def chosen(recorder: Recorder, triton: bool = False) -> CaptureSource:
    """The recorder for this machine: `cupti` if there is a GPU, else `cudart`, the stand-in for libcudart.

    `triton`: the kernels to record are in Triton.

    Raises:
        MissingDependencyError: no GPU for it.
    """
    if recorder == "triton" or (recorder == "auto" and triton):
        return "triton"
    if recorder == "cupti" and not GPU.exists():
        hint = "--recorder cudart needs none"
        raise MissingDependencyError("there is no NVIDIA GPU here", where="--recorder cupti", hint=hint)
    return "cudart" if recorder == "cudart" or not GPU.exists() else "cupti"


def found(command: Sequence[str]) -> list[str]:
    """The command with the full path of its program.

    Raises:
        InputError: there is no such program, or it cannot be run.
    """
    if not command or not command[0]:
        raise InputError("no program to run", where="capture", hint="give it after --: -- ./program args")
    path = shutil.which(command[0])
    if path is None:
        problem = "is not executable" if Path(command[0]).exists() else "no such program"
        raise InputError(problem, where=command[0], hint="give a path, or a program on the PATH")
    return [path, *command[1:]]


def run(
    command: Sequence[str],
    source: CaptureSource,
    folder: Path,
    limits: Limits,
    only: Path | None = None,
    emulated: Path | None = None,
    timeout_s: float | None = None,
    *,
    after: bool = False,
) -> Ended:
    """Run the program to its end.

    `only`: a file with the names of the kernels to record. `emulated`: the index of those that the stand-in
    runs. `timeout_s`: seconds after which the program and its children are ended. `after`: also record the
    contents of buffers after a launch.

    Raises:
        InputError: it cannot be started. MissingDependencyError: the recorder cannot be built here.
    """
    environment = {**os.environ, **_recorder(source), **_settings(folder, limits, only, after)}
    if emulated is not None:
        environment["KCURATE_CAPTURE_RUN"] = str(emulated)
    program: subprocess.Popen[bytes] | None = None

    signals: list[int] = []

    def end(number: int, _: object) -> None:
        """Pass the signal on, except Ctrl-C to a program in our own process group, which gets it anyway."""
        signals.append(number)
        if program is not None and timeout_s is not None:
            _signal(program, number)
        elif program is not None and number != signal.SIGINT:
            program.send_signal(number)

    # The program does not inherit handlers; signals that are ignored, as by nohup, stay ignored.
    handlers = {signum: signal.getsignal(signum) for signum in ENDING}
    before = {signum: old for signum, old in handlers.items() if old not in (signal.SIG_IGN, None)}
    for signum in before:
        signal.signal(signum, end)
    try:
        group = 0 if timeout_s is not None else None
        program = subprocess.Popen(found(command), env=environment, process_group=group)
        if signals:  # one arrived while the program was being started
            end(signals[0], None)
        code = _ended(program, timeout_s)
    except OSError as error:
        what, hint = f"cannot be started: {error.strerror or error}", "is it built for this machine?"
        raise InputError(what, where=command[0], hint=hint) from error
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)
    return Ended(code if code >= 0 else 128 - code, bool(signals))


def _ended(program: subprocess.Popen[bytes], timeout_s: float | None) -> int:
    """The program's return code; it gets SIGTERM after the time limit, and is killed 5 s later."""
    for wait_s, then in ((timeout_s, signal.SIGTERM), (ENDING_S, signal.SIGKILL)):
        try:
            return program.wait(wait_s)
        except subprocess.TimeoutExpired:
            _signal(program, then)
    return program.wait()


def _signal(program: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, number)


def _recorder(source: CaptureSource) -> dict[str, str]:
    if source == "triton":
        folders = [str(INJECTED), *filter(None, [os.environ.get("PYTHONPATH")])]
        interpreted = {} if GPU.exists() else {"TRITON_INTERPRET": "1"}
        return {"PYTHONPATH": os.pathsep.join(folders), **interpreted}
    if source == "cupti":
        return {"CUDA_INJECTION64_PATH": str(building.injection())}
    folders = [str(building.stand_in()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders)}


def _settings(folder: Path, limits: Limits, only: Path | None, after: bool) -> Mapping[str, str]:
    settings = {
        "KCURATE_CAPTURE_DIR": str(folder.resolve()),
        "KCURATE_CAPTURE_PER_KERNEL": str(limits.per_kernel),
        "KCURATE_CAPTURE_BYTES": str(limits.total_bytes),
        "KCURATE_CAPTURE_BUFFER_BYTES": str(limits.buffer_bytes),
        "KCURATE_CAPTURE_AFTER": str(int(after)),
        "KCURATE_CAPTURE_SECONDS": f"{limits.seconds:g}",
    }
    if only is not None:
        settings["KCURATE_CAPTURE_ONLY"] = str(only.resolve())
    return settings
