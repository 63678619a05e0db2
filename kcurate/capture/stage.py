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
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kcurate.capture import emulated, raw, running
from kcurate.capture.recording import Describer, Texts
from kcurate.capture.running import Limits
from kcurate.core import store
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.demangled import Demangled
from kcurate.errors import InputError, RecordError
from kcurate.records import Capture, CapturedLaunch, Kernel, Summary

STAGE = "capture"
DATA = "data"
# What is said of launches that left nothing, by the recorders' name for it.
MEANING = {
    "managed": "managed memory is written by the host without a call: contents may be older than the launch",
    "limit": "a limit was reached",
    "graph": "kernels in graphs of several nodes, or beside a capture: buffers were not looked at",
    "cupti": "CUPTI could not be used: nothing was recorded",
    "no_params": "sizes of parameters are unknown: the binary does not tell them",
    "no_kernel": "a kernel was built for another architecture, or is not in the binary",
    "unknown_memory": "pointers into memory that was not allocated through CUDA",
    "missing": "the stand-in for the CUDA runtime lacks a function that the program calls",
    "run_failed": "a kernel failed on the emulator",
    "hook": "the recorder of Triton's launches failed on one",
    "fork": "a child process used CUDA's state of its parent",
    "lost": "the recorder could not write (a full disk, or a limit of the program: ulimit -f, ulimit -n)",
}
# What the recorders call a limit, and the user.
OPTIONS = {"KCURATE_CAPTURE_BYTES": "--max-bytes", "KCURATE_CAPTURE_SECONDS": "--max-seconds"}


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
        kernels = _kernels(workspace, record.note)
        languages = {one.language for same in kernels.values() for one, _ in same}
        source = running.chosen(config.recorder, languages == {"triton"})
        language = "triton" if source == "triton" else "cuda"
        kernels = {name: same for name, same in kernels.items() if same[0][0].language == language}
        program, *args = running.found(config.command)
        runs = (args, *map(_arguments, config.also))
        record.begin(config)
        counts: dict[str, Counter[str]] = {"kernels": Counter(), "launches": Counter()}
        codes: list[int] = []
        others: Counter[str] = Counter()
        unreadable = False
        # A process that the program left behind may still write there.
        with tempfile.TemporaryDirectory(prefix="kcurate-capture-", ignore_cleanup_errors=True) as name:
            place = Path(name)
            only = _names(place, kernels) if pattern is None and kernels else None
            emulates = config.run_kernels and source == "cudart"
            index = _emulated(place, kernels, record) if emulates else None
            for number, given in enumerate(runs):
                folder = place / str(number)
                folder.mkdir()
                command, limits = [program, *given], config.limits
                ended = running.run(
                    command, source, folder, limits, only, index, config.timeout_s, after=config.keep_data
                )
                codes.append(ended.code)
                if ended.code:
                    record.note(
                        f"{Path(program).name} ended with code {ended.code}; what it did until then stays"
                    )
                others += _write(folder, config, workspace, kernels, pattern, counts, record, ended.code)
                # Only said where nothing was written down.
                unreadable |= not counts["launches"]["written_down"] and raw.unreadable(folder)
                shutil.rmtree(folder, ignore_errors=True)
                if ended.interrupted:
                    break
        if not counts["launches"]["written_down"]:
            raise _nothing(config, source, others, unreadable=unreadable)
        summary = record.finish({kind: dict(found) for kind, found in counts.items()})
        return Captured(summary, next((code for code in codes if code), 0))


def _arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        what = f"not a list of arguments: {str(error)[:1].lower()}{str(error)[1:]}"
        hint = "quote as in a shell, such as --also \"64 'two words'\""
        raise InputError(what, where=f"--also {text}", hint=hint) from error


def _nothing(config: CaptureConfig, source: str, others: Counter[str], *, unreadable: bool) -> InputError:
    """Why nothing was written down."""
    command = shlex.join(config.command)
    if unreadable and not others:
        hint = f"is {tempfile.gettempdir()} full, or does the program limit its files (ulimit -f)?"
        return InputError("the recorder could not write what was launched", where=command, hint=hint)
    if not others:
        return InputError("no kernel was launched", where=command, hint=_hint(source))
    names = [Demangled.of(name).base for name, _ in others.most_common(3)]
    more = f" and {len(others) - len(names)} more" if len(others) > len(names) else ""
    launched = f"it launched {', '.join(names)}{more}"
    if config.kernel is not None:
        what, hint = f"no launched kernel matches --kernel {config.kernel}", "choose another expression"
    else:
        what = "none of the kernels that extract found was launched"
        hint = 'name the tree of the program with --tree, or write down all with --kernel ""'
    return InputError(f"{what}; {launched}", where=command, hint=hint)


def _hint(source: str) -> str:
    if source == "triton":
        return "does it launch kernels in Triton, in a Python that reads PYTHONPATH (not -I, -E or -S)?"
    if source == "cudart":
        return "without a GPU only programs built with `nvcc -cudart shared` can be recorded"
    return "is it a CUDA program, and does it run on this GPU?"


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise InputError(f"not a regular expression: {error}", where=f"--kernel {text}") from error


def _kernels(workspace: Workspace, note: Note) -> dict[str, list[tuple[Kernel, str]]]:
    """What extract found, by name; `note` receives what cannot be read."""
    found: dict[str, list[tuple[Kernel, str]]] = {}
    for path in sorted(workspace.kernels.rglob("kernel.json")):
        try:
            one = store.read_json(path, Kernel)
            code = store.read_kernel_code(path.parent)
        except InputError as error:
            note(f"left out: {error}")
            continue
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
    code: int,
) -> Counter[str]:
    """Describe what one run left, and add it to the records; the launches of kernels that have none."""
    left: Counter[str] = Counter()
    launches = counts["launches"]
    processes = raw.read(folder)
    for text in dict.fromkeys(text for process in processes for text in _notes(process, code)):
        record.note(text)
    for process in processes:
        place = workspace.captures / process.program
        if config.keep_data:
            size = sum(path.stat().st_size for path in folder.glob("*.bin"))
            record.note(f"keeping the contents of buffers: {size / 1e6:,.1f} MB in {place / DATA}")
        describer = Describer(folder, Texts(kernels), place / DATA, keep=config.keep_data)
        kept = set()
        for one in describer.captures(process):
            times = sum(launch.times for launch in one.launches)
            if pattern is None or pattern.search(one.kernel):
                kept.add(one.kernel)
                counts["kernels"]["written_down"] += _add(place, one, record)
                launches["written_down"] += times
            else:
                counts["kernels"]["left_out"] += 1
                left[one.kernel] += times
        others = Counter({raw.demangled(name): times for name, times in process.others.items()})
        for name in kept & others.keys():
            launches["of_more_forms"] += others.pop(name)
        counts["kernels"]["not_in_the_tree"] += len(others - left)
        left += others
        for name, times in others.most_common(5):
            record.log(f"{process.program}: not in the tree: {name}, {times} launches")
    launches["of_other_kernels"] += left.total()
    return left


def _notes(process: raw.RawProcess, code: int) -> Iterator[str]:
    """What was not recorded, and why."""
    for what, told in process.notes.items():
        text = re.sub(r"_Z\w+", lambda name: Demangled.of(raw.demangled(name[0])).base, told)
        for variable, option in OPTIONS.items():
            text = text.replace(variable, option)
        yield f"{process.program}: {MEANING.get(what, what)}{f' ({text})' if text else ''}"
    if not process.ended and not code and "lost" not in process.notes:
        yield (
            f"{process.program}: the last records are missing: it still runs, ended by _exit or a signal, or "
            "the recorder could not write (a full disk, ulimit -f, ulimit -n)"
        )


def _add(place: Path, one: Capture, record: Run) -> bool:
    """Write a record, with the launches of an earlier one; False if there was one."""
    # C names do not tell parameters.
    own = () if one.mangled.startswith("_Z") else one.params if one.source == "triton" else _sizes(one)
    path = place / f"{store.content_id(one.mangled, one.source, one.device, *own)}.json"
    if not path.exists():
        store.write_json(path, one)
        return True
    try:
        earlier = store.read_json(path, Capture)
    except RecordError as error:
        aside = store.put_aside(path)
        record.note(f"{path}: {error.what}; it is now {aside.name}, and a new record takes its place")
        store.write_json(path, one)
        return True
    seen = {_form(launch) for launch in earlier.launches}
    new = tuple(launch for launch in one.launches if _form(launch) not in seen)
    store.write_json(path, replace(one, launches=(*earlier.launches, *new)))
    return False


def _sizes(one: Capture) -> tuple[str, ...]:
    """The sizes of the arguments, as part of a record's name."""
    return tuple(str(len(arg.hex) // 2) for arg in one.launches[0].args)


def _form(launch: CapturedLaunch) -> tuple[object, ...]:
    """What makes two launches the same, apart from what their buffers hold."""
    sizes = tuple(buffer.size_bytes for buffer in launch.buffers)
    constexprs = tuple(sorted((name, repr(value)) for name, value in launch.constexprs.items()))
    own = constexprs, launch.num_stages
    return launch.grid, launch.block, launch.args, launch.cluster, launch.shared_bytes, sizes, *own
