"""The stage: run a program, and write what it did with each kernel to `captures/<program>/<id>.json`.

There is one file for each kernel and device; running again adds forms that are new. Not covered: what becomes
of the records (`kcurate.draft`).
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from kcurate import store
from kcurate.capture import emulated, raw, running
from kcurate.capture.recording import Describer, Texts
from kcurate.capture.running import Limits
from kcurate.config import DEFAULT_WORKSPACE
from kcurate.errors import InputError
from kcurate.notes import Note, silent
from kcurate.records import Capture, CapturedLaunch, Kernel, Summary
from kcurate.runs import Run, recorded
from kcurate.workspace import Workspace

STAGE = "capture"
DATA = "data"
# What is said of launches that left nothing, by the recorders' name for it.
MEANING = {
    "managed": "managed memory is written by the host without a call: contents may be older than the launch",
    "limit": "a limit was reached (--max-bytes, --max-buffer-bytes, --max-seconds, --per-kernel)",
    "graph": "kernels in graphs of several nodes, or beside a capture: buffers were not looked at",
    "cupti": "CUPTI could not be used: nothing was recorded",
    "no_params": "sizes of parameters are unknown: the binary does not tell them",
    "no_kernel": "a kernel was built for another architecture, or is not in the binary",
    "unknown_memory": "pointers into memory that was not allocated through CUDA",
    "missing": "the stand-in for the CUDA runtime lacks a function that the program calls",
    "run_failed": "a kernel failed on the emulator",
    "fork": "a child process used CUDA's state of its parent",
}


@dataclass(frozen=True)
class CaptureConfig:
    """What to run. `also`: further arguments, each for one more run of the program.

    `kernel`: a regular expression that finds names to write down; None: the kernels that the workspace holds,
    or all if it holds none. `recorder`: `auto`, `cupti` or `cudart`. `keep_data`: keep all contents.
    `run_kernels`: without a GPU, run the workspace's kernels on the emulator. `timeout_s`: when each
    run is ended.
    """

    command: tuple[str, ...]
    workspace: Path = DEFAULT_WORKSPACE
    kernel: str | None = None
    also: tuple[str, ...] = ()
    recorder: str = "auto"
    limits: Limits = field(default_factory=Limits)
    keep_data: bool = False
    run_kernels: bool = False
    timeout_s: float | None = None


@dataclass(frozen=True)
class Captured:
    """The counts, and the exit code of the program's first run that did not end well, else 0."""

    summary: Summary
    exit_code: int


def run(config: CaptureConfig, *, note: Note = silent) -> Captured:
    """Run the program once for each set of arguments, and write down what it launched.

    Raises:
        InputError: no such program or recorder, a bad expression, or nothing was launched.
        MissingDependencyError: the recorder cannot be built here.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        pattern = _pattern(config.kernel)
        source = running.chosen(config.recorder)
        program, *args = running.found(config.command)
        kernels = _kernels(workspace)
        record.begin(config)
        counts: dict[str, Counter[str]] = {"kernels": Counter(), "launches": Counter()}
        codes: list[int] = []
        with tempfile.TemporaryDirectory(prefix="kcurate-capture-") as name:
            place = Path(name)
            only = _names(place, kernels) if pattern is None and kernels else None
            runs = config.run_kernels and source == "cudart"
            index = _emulated(place, kernels, record) if runs else None
            for number, given in enumerate((args, *map(shlex.split, config.also))):
                folder = place / str(number)
                folder.mkdir()
                codes.append(
                    running.run(
                        [program, *given], source, folder, config.limits, only, index, config.timeout_s
                    )
                )
                if codes[-1]:
                    record.note(
                        f"{Path(program).name} ended with code {codes[-1]}; what it did until then stays"
                    )
                _write(folder, config, workspace, kernels, pattern, counts, record)
                shutil.rmtree(folder)
        if not any(counts["launches"].values()):
            raise InputError(
                "no kernel was launched", where=shlex.join(config.command), hint=_hint(source, config)
            )
        summary = record.finish({kind: dict(found) for kind, found in counts.items()})
        return Captured(summary, next((code for code in codes if code), 0))


def _hint(source: str, config: CaptureConfig) -> str:
    if source == "cudart":
        return "without a GPU only programs built with `nvcc -cudart shared` can be recorded"
    return "is it a CUDA program, and does it run on this GPU?"


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise InputError(f"not a regular expression: {error}", where=f"--kernel {text}") from error


def _kernels(workspace: Workspace) -> dict[str, list[tuple[Kernel, str]]]:
    """What extract found, by name."""
    found: dict[str, list[tuple[Kernel, str]]] = {}
    for path in sorted(workspace.kernels.rglob("kernel.json")):
        one = store.read_json(path, Kernel)
        code = path.with_name("kernel.cu").read_bytes().decode("utf-8", "replace")
        found.setdefault(one.name.split("::")[-1], []).append((one, code))
    return found


def _emulated(place: Path, kernels: dict[str, list[tuple[Kernel, str]]], record: Run) -> Path:
    """The index of the kernels that the emulator can run."""
    index, failed = emulated.prepare([one for same in kernels.values() for one in same], place)
    for line in failed:
        record.note(f"not run on the emulator: {line}")
    return index


def _names(folder: Path, kernels: dict[str, list[tuple[Kernel, str]]]) -> Path:
    path = folder / "only.txt"
    path.write_text("".join(f"{name}\n" for name in sorted(kernels)), encoding="utf-8")
    return path


def _write(
    folder: Path,
    config: CaptureConfig,
    workspace: Workspace,
    kernels: dict[str, list[tuple[Kernel, str]]],
    pattern: re.Pattern[str] | None,
    counts: dict[str, Counter[str]],
    record: Run,
) -> None:
    """Describe what one run left, and add it to the records."""
    for process in raw.read(folder):
        for what, text in process.notes.items():
            record.note(f"{process.program}: {MEANING.get(what, what)}{f' ({text})' if text else ''}")
        counts["launches"]["written_down"] += sum(process.times.values()) or len(process.forms)
        counts["launches"]["of_other_kernels"] += sum(process.others.values())
        place = workspace.captures / process.program
        if config.keep_data:
            size = sum(path.stat().st_size for path in folder.glob("*.bin"))
            record.note(f"keeping the contents of buffers: {size / 1e6:,.1f} MB in {place / DATA}")
        describer = Describer(folder, Texts(kernels), place / DATA, keep=config.keep_data)
        for one in describer.captures(process):
            if pattern is None or pattern.search(one.kernel):
                counts["kernels"]["written_down"] += _add(place, one)
            else:
                counts["kernels"]["left_out"] += 1
        others = Counter({raw.demangled(name): times for name, times in process.others.items()})
        counts["kernels"]["not_in_the_tree"] += len(others)
        for name, times in others.most_common(5):
            record.log(f"{process.program}: not in the tree: {name}, {times} launches")


def _add(place: Path, one: Capture) -> bool:
    """Write a record, with the launches of an earlier one; False if there was one."""
    path = place / f"{store.content_id(one.mangled, one.source, one.device)}.json"
    if not path.exists():
        store.write_json(path, one)
        return True
    earlier = store.read_json(path, Capture)
    seen = {_form(launch) for launch in earlier.launches}
    new = tuple(launch for launch in one.launches if _form(launch) not in seen)
    store.write_json(path, replace(one, launches=(*earlier.launches, *new)))
    return False


def _form(launch: CapturedLaunch) -> tuple[object, ...]:
    """What makes two launches the same, apart from what their buffers hold."""
    sizes = tuple(buffer.size_bytes for buffer in launch.buffers)
    return launch.grid, launch.block, launch.args, launch.cluster, launch.shared_bytes, sizes
