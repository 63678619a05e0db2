"""The stage: runs a program, and writes its launches of each kernel to `captures/<program>/<id>.json`.

There is one file for each kernel and device; another run adds launches of new forms. Not covered: how records
become problems (`kcurate.draft`).
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
from kcurate.capture.settings import CaptureConfig
from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.errors import InputError, OptionError, RecordError
from kcurate.records import Capture, CapturedLaunch, Kernel, Summary

STAGE = "capture"
DATA = "data"
# Why launches were not fully recorded, by the recorders' word for it.
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
# Hints if no kernel was launched, by recorder.
NOTHING_LAUNCHED = {
    "triton": "does it launch kernels in Triton, in a Python that reads PYTHONPATH (not -I, -E or -S)?",
    "cudart": "without a GPU only programs built with `nvcc -cudart shared` can be recorded",
    "cupti": "is it a CUDA program, and does it run on this GPU?",
}
# The recorders' names of limits, and the options that set them.
OPTIONS = {"KCURATE_CAPTURE_BYTES": "--max-bytes", "KCURATE_CAPTURE_SECONDS": "--max-seconds"}


@dataclass(frozen=True)
class Captured:
    """The counts, and the exit code of the first run of the program that failed, else 0."""

    summary: Summary
    exit_code: int


def run(config: CaptureConfig, *, note: Note = silent) -> Captured:
    """Run the program once for each set of arguments, and record what it launched.

    Raises:
        InputError: no such program or recorder, a bad expression, or nothing was launched.
        MissingDependencyError: the recorder cannot be built here.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        pattern = _pattern(config.kernel)
        kernels = _kernels(workspace, record.note)
        languages = {kernel.language for group in kernels.values() for kernel, _ in group}
        source = running.chosen(config.recorder, languages == {"triton"})
        language = "triton" if source == "triton" else "cuda"
        kernels = {name: group for name, group in kernels.items() if group[0][0].language == language}
        program, *args = running.found(config.command)
        runs = (args, *map(_arguments, config.also))
        record.begin(config)
        writer = _Writer(config, kernels, pattern, record)
        codes: list[int] = []
        unrecorded: Counter[str] = Counter()
        unreadable = False
        # A process that the program left behind may still write there.
        with tempfile.TemporaryDirectory(prefix="kcurate-capture-", ignore_cleanup_errors=True) as name:
            temporary = Path(name)
            only = _names(temporary, kernels) if pattern is None and kernels else None
            emulates = config.run_kernels and source == "cudart"
            index = _emulated(temporary, kernels, record) if emulates else None
            for number, arguments in enumerate(runs):
                folder = temporary / str(number)
                folder.mkdir()
                command, limits = [program, *arguments], config.limits
                ended = running.run(
                    command, source, folder, limits, only, index, config.timeout_s, after=config.keep_data
                )
                codes.append(ended.code)
                if ended.code:
                    ending = f"{Path(program).name} ended with code {ended.code}"
                    record.note(f"{ending}; what it did until then stays")
                unrecorded += writer.add(folder, ended.code)
                # Matters only if nothing was recorded.
                unreadable |= not writer.counts["launches"]["written_down"] and raw.unreadable(folder)
                shutil.rmtree(folder, ignore_errors=True)
                if ended.interrupted:
                    break
        if not writer.counts["launches"]["written_down"]:
            raise _nothing_recorded(config, source, unrecorded, unreadable=unreadable)
        summary = record.finish({kind: dict(outcomes) for kind, outcomes in writer.counts.items()})
        return Captured(summary, next((code for code in codes if code), 0))


def _arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        problem = f"not a list of arguments: {str(error)[:1].lower()}{str(error)[1:]}"
        hint = "quote as in a shell, such as --also \"64 'two words'\""
        raise OptionError(problem, where=f"--also {text}", hint=hint) from error


def _nothing_recorded(
    config: CaptureConfig, source: str, unrecorded: Counter[str], *, unreadable: bool
) -> InputError:
    """The error if nothing was recorded, with a hint on the likely reason."""
    command = shlex.join(config.command)
    if unreadable and not unrecorded:
        hint = f"is {tempfile.gettempdir()} full, or does the program limit its files (ulimit -f)?"
        return InputError("the recorder could not write what was launched", where=command, hint=hint)
    if not unrecorded:
        return InputError("no kernel was launched", where=command, hint=NOTHING_LAUNCHED[source])
    names = [Demangled.of(name).base for name, _ in unrecorded.most_common(3)]
    others_too = f" and {len(unrecorded) - len(names)} more" if len(unrecorded) > len(names) else ""
    launched = f"it launched {', '.join(names)}{others_too}"
    if config.kernel is not None:
        problem, hint = f"no launched kernel matches --kernel {config.kernel}", "choose another expression"
    else:
        problem = "none of the kernels that extract found was launched"
        hint = 'name the tree of the program with --tree, or write down all with --kernel ""'
    return InputError(f"{problem}; {launched}", where=command, hint=hint)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise OptionError(f"not a regular expression: {error}", where=f"--kernel {text}") from error


def _kernels(workspace: Workspace, note: Note) -> dict[str, list[tuple[Kernel, str]]]:
    """The extracted kernels by name; `note` receives messages about unreadable ones."""
    kernels: dict[str, list[tuple[Kernel, str]]] = {}
    for path in store.find(workspace.kernels, "kernel.json"):
        try:
            kernel = store.read_json(path, Kernel)
            code = store.read_kernel_code(path.parent)
        except InputError as error:
            note(f"left out: {error}")
            continue
        kernels.setdefault(kernel.name.split("::")[-1], []).append((kernel, code))
    return kernels


def _emulated(folder: Path, kernels: dict[str, list[tuple[Kernel, str]]], record: Run) -> Path:
    """The index of the kernels that the emulator can run."""
    index, failed = emulated.prepare([kernel for group in kernels.values() for kernel in group], folder)
    for line in failed:
        record.note(f"not run on the emulator: {line}")
    return index


def _names(folder: Path, kernels: dict[str, list[tuple[Kernel, str]]]) -> Path:
    path = folder / "only.txt"
    path.write_text("".join(f"{name}\n" for name in sorted(kernels)), encoding="utf-8")
    return path


@dataclass
class _Writer:
    """Adds the records of a program's runs to the workspace, and counts them.

    `kernels`: the extracted kernels by name. `pattern` selects kernels; None: all.
    """

    config: CaptureConfig
    kernels: dict[str, list[tuple[Kernel, str]]]
    pattern: re.Pattern[str] | None
    record: Run
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {"kernels": Counter(), "launches": Counter()}
    )

    def add(self, folder: Path, code: int) -> Counter[str]:
        """Add the records of one run; returns the launches of kernels without a record, by name."""
        unrecorded: Counter[str] = Counter()
        processes = raw.read(folder)
        for text in dict.fromkeys(text for process in processes for text in _notes(process, code)):
            self.record.note(text)
        for process in processes:
            self._add_process(folder, process, unrecorded)
        self.counts["launches"]["of_other_kernels"] += unrecorded.total()
        return unrecorded

    def _add_process(self, folder: Path, process: raw.RawProcess, unrecorded: Counter[str]) -> None:
        """Add one process; `unrecorded` counts the launches of kernels without a record."""
        launches = self.counts["launches"]
        captures = Workspace(self.config.workspace).captures / process.program
        keep = self.config.keep_data
        if keep:
            size = sum(path.stat().st_size for path in folder.glob("*.bin"))
            self.record.note(f"keeping the contents of buffers: {size / 1e6:,.1f} MB in {captures / DATA}")
        describer = Describer(folder, Texts(self.kernels), captures / DATA, keep=keep)
        recorded_names = set()
        for capture in describer.captures(process):
            times = sum(launch.times for launch in capture.launches)
            if self.pattern is None or self.pattern.search(capture.kernel):
                recorded_names.add(capture.kernel)
                self.counts["kernels"]["written_down"] += _add(captures, capture, self.record)
                launches["written_down"] += times
            else:
                self.counts["kernels"]["left_out"] += 1
                unrecorded[capture.kernel] += times
        only_counted = Counter({raw.demangled(name): times for name, times in process.others.items()})
        for name in recorded_names & only_counted.keys():
            launches["of_more_forms"] += only_counted.pop(name)
        self.counts["kernels"]["not_in_the_tree"] += len(only_counted - unrecorded)
        unrecorded += only_counted
        for name, times in only_counted.most_common(5):
            self.record.log(f"{process.program}: not in the tree: {name}, {times} launches")


def _notes(process: raw.RawProcess, code: int) -> Iterator[str]:
    """One line for each kind of launches that were not recorded, with the reason."""
    for reason, detail in process.notes.items():
        text = re.sub(r"_Z\w+", lambda name: Demangled.of(raw.demangled(name[0])).base, detail)
        for variable, option in OPTIONS.items():
            text = text.replace(variable, option)
        yield f"{process.program}: {MEANING.get(reason, reason)}{f' ({text})' if text else ''}"
    if not process.ended and not code and "lost" not in process.notes:
        yield (
            f"{process.program}: the last records are missing: it still runs, ended by _exit or a signal, or "
            "the recorder could not write (a full disk, ulimit -f, ulimit -n)"
        )


def _add(captures: Path, capture: Capture, record: Run) -> bool:
    """Write a record, merged with an earlier one; returns whether it is new."""
    # A C name does not include parameter types, so the record's name also includes their sizes.
    parameters = tuple(str(len(arg.hex) // 2) for arg in capture.launches[0].args)
    if capture.mangled.startswith("_Z") or capture.source == "triton":
        parameters = () if capture.mangled.startswith("_Z") else capture.params
    path = captures / f"{store.content_id(capture.mangled, capture.source, capture.device, *parameters)}.json"
    if not path.exists():
        store.write_json(path, capture)
        return True
    try:
        earlier = store.read_json(path, Capture)
    except RecordError as error:
        aside = store.put_aside(path)
        record.note(f"{path}: {error.what}; it is now {aside.name}, and a new record takes its place")
        store.write_json(path, capture)
        return True
    earlier_forms = {_launch_form(launch) for launch in earlier.launches}
    new_launches = tuple(launch for launch in capture.launches if _launch_form(launch) not in earlier_forms)
    store.write_json(path, replace(capture, launches=(*earlier.launches, *new_launches)))
    return False


def _launch_form(launch: CapturedLaunch) -> tuple[object, ...]:
    """What defines the form of a launch: everything but the contents of its buffers."""
    sizes = tuple(buffer.size_bytes for buffer in launch.buffers)
    constexprs = tuple(sorted((name, repr(value)) for name, value in launch.constexprs.items()))
    configuration = (launch.grid, launch.block, launch.cluster, launch.shared_bytes, launch.num_stages)
    return (*configuration, launch.args, sizes, constexprs)
