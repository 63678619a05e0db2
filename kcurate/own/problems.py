"""An admitted problem for one of a user's kernels: what the workspace has, else drafted, else asked for.

Not covered: drafting, checking and admission (`kcurate.draft`), recording a problem from a running program.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import own_files, store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.draft.captured.launch_records import Captures
from kcurate.draft.file import toml_reader
from kcurate.draft.file.open_places import filled, open_fields
from kcurate.draft.for_pairs.other_kernel import FORM_NAME
from kcurate.draft.host import host_files
from kcurate.draft.settings import DraftConfig
from kcurate.draft.stage import draft
from kcurate.draft.trying.completed_files import check
from kcurate.errors import InputError, KcurateError, OptionError
from kcurate.own import launches
from kcurate.own.kernels import Own
from kcurate.records import Kernel
from kcurate.suites.problems import PROBLEM_NAME, own_problem

# Asks a person: the question and the value so far; returns the answer (empty: keep the value).
Ask = Callable[[str, str], str]
# Beside a kernel: the launch that its draft was made for, if an option gave it.
LAUNCH_NAME = "launch.txt"
# Counted for a kernel without a launch, so that any draft with a plan is completed first.
LAUNCHLESS_PLACES = 1000


@dataclass(frozen=True)
class _State:
    """Whether a kernel needs a new draft; `why` the one on file was refused (None: it was not)."""

    needs_draft: bool
    why: str | None = None


@dataclass(frozen=True)
class Wanted:
    """A kernel, and its launch (`GRID, BLOCK`) from a command-line option named `option`; None: not given."""

    own: Own
    launch: str | None
    option: str

    @property
    def kernel(self) -> Kernel:
        """Its record `kernel.json`, which also has the launch of the option."""
        return store.read_json(self.own.half.folder / "kernel.json", Kernel)

    @property
    def form(self) -> Path:
        """The TOML file of its draft."""
        return self.own.half.folder / FORM_NAME

    @property
    def known(self) -> bool:
        """Whether it has an admitted problem."""
        return self.own.half.known() is not None


def find_problem(
    wanted: Sequence[Wanted], workspace: Path, *, ask: Ask | None, command: str, note: Note = silent
) -> None:
    """Give one of the kernels an admitted problem, and each that is launched a draft.

    `ask` None: nobody is there to answer. `command` is what to run once a person has filled in the rest.

    Raises:
        InputError: no problem is admitted; the message names the file to complete, `note` receives each open
            place.
    """
    states = [(target, _state(target, workspace, note)) for target in wanted]
    refusals = {target.form: state.why for target, state in states if state.why is not None}
    refusals |= _draft([target for target, state in states if state.needs_draft], workspace, note)
    if ask is not None:
        _ask_launches(
            [target for target in wanted if launchless(target) and not target.known], workspace, ask, note
        )
        if not any(target.known for target in wanted):
            target = min(wanted, key=_open_places)
            refusals |= {target.form: _ask_fields(target, workspace, ask, note)}
    if any(target.known for target in wanted):
        return
    first = min(wanted, key=_open_places)
    if launchless(first):
        raise InputError(
            f"nothing launches {first.kernel.name}",
            where=str(first.own.path),
            hint=f"say how with {first.option} {launches.FORM}; or add a host function that launches it; "
            f"or run your program once: kcurate capture -w {workspace} -- ./program",
        )
    faults = toml_reader.read(first.form).faults
    for fault in faults:
        note(str(fault))
    what = f"{len(faults)} places are open" if faults else refusals.get(first.form, "it was refused")
    again = f"complete the file, or delete it to have it drafted again; then: {command}"
    raise InputError(f"no problem yet for {first.own.name}: {what}", where=str(first.form), hint=again)


def _open_places(target: Wanted) -> int:
    return LAUNCHLESS_PLACES if launchless(target) else len(toml_reader.read(target.form).faults)


def launchless(target: Wanted) -> bool:
    """Whether its draft has no plan, because nothing launches it."""
    try:
        sides = tomllib.loads(own_files.read(target.form).decode())["sides"]
        return not any(side.get("plan") for side in sides.values())
    except (KcurateError, ValueError, KeyError, AttributeError):
        return False  # no draft, or none that can be read


def _state(target: Wanted, workspace: Path, note: Note) -> _State:
    """What a kernel needs, after writing what is known without a draft: launch, or problem of equal code.

    A draft that was edited since it was admitted is checked again; one for another launch is drafted anew.
    """
    if _write_launch(target):
        return _State(needs_draft=True)
    record = target.form.with_name(PROBLEM_NAME)
    edited = (
        store.exists(record)
        and store.exists(target.form)
        and target.form.stat().st_mtime_ns > record.stat().st_mtime_ns
    )
    if not edited and (target.known or _take_over_problem(target.own, workspace)):
        return _State(needs_draft=False)
    if not store.exists(target.form) or launchless(target):
        _write_guessed_launch(target, workspace, note)
        if not store.exists(target.form) or target.kernel.launch_sites:
            return _State(needs_draft=True)
    try:
        check((target.form,), workspace)
    except InputError as error:
        return _State(_recorded_since(target, workspace), error.what)
    return _State(needs_draft=False)


def _recorded_since(target: Wanted, workspace: Path) -> bool:
    """Whether a captured program launched the kernel after its draft was written."""
    drafted_ns = target.form.stat().st_mtime_ns
    records = Workspace(workspace).captures.glob("*/*.json")
    newer = any(path.stat().st_mtime_ns > drafted_ns for path in records)
    return (
        newer and Captures(Workspace(workspace), silent).of(target.kernel, target.own.half.code) is not None
    )


def _draft(wanted: Sequence[Wanted], workspace: Path, note: Note) -> dict[Path, str]:
    """Draft these kernels anew; returns why each that is not admitted is not, by its draft's file."""
    if not wanted:
        return {}
    lines: dict[str, str] = {}

    def noted(line: str) -> None:
        kernel, _, rest = line.partition(": ")
        lines[kernel] = rest
        note(line)

    for target in wanted:
        if store.exists(target.form):
            target.form.replace(target.form.with_name(f"{FORM_NAME}.old"))
    # `kernel.json` has a launch that the source file does not: given or guessed, so no host code is searched.
    without_host = [
        target for target in wanted if target.kernel.launch_sites != target.own.half.kernel.launch_sites
    ]
    for some in (without_host, [target for target in wanted if target not in without_host]):
        folders = tuple(str(target.own.half.folder) for target in some)
        trees = () if some is without_host else tuple({target.own.path.parent for target in some})
        try:
            if some:
                draft(DraftConfig(workspace, folders, trees), note=noted)
        except InputError:  # nothing launches one of them, as its file says
            if not all(store.exists(target.form) for target in some):
                raise
    return {target.form: lines.get(target.own.half.kernel.id, "") for target in wanted if not target.known}


def _take_over_problem(kernel_file: Own, workspace: Path) -> bool:
    """Copy the admitted problem of a kernel of equal code in the workspace; whether there was one."""
    code_id = store.content_id(kernel_file.half.code)
    for path in store.find(Workspace(workspace).kernels, PROBLEM_NAME):
        try:
            if f'"{code_id}"'.encode() not in own_files.read(path):
                continue
            kernel = store.read_json(path.with_name("kernel.json"), Kernel)
            known = own_problem(path.parent, kernel_file.half.code)
        except InputError:  # a damaged kernel elsewhere is no reason to stop
            continue
        variant, mine = kernel.variant or "", kernel_file.half.kernel.variant or ""
        if known is not None and kernel.name == kernel_file.half.kernel.name and variant in known.sides:
            problem = replace(known, sides={mine: known.sides[variant]})
            store.write_json(kernel_file.half.folder / PROBLEM_NAME, problem)
            return True
    return False


def _write_launch(target: Wanted) -> bool:
    """Write the option's launch into the kernel's record; whether its draft was made for another launch.

    Raises:
        OptionError: the file has a launch already, or the text is not a launch.
    """
    if target.launch is None:
        return False
    kernel = target.own.half.kernel
    if kernel.launch_sites:
        site = kernel.launch_sites[0]
        what = f"{target.own.name} is launched in {site.path}:{site.line}"
        raise OptionError(what, where=target.option, hint="leave it out")
    record = launches.written(target.launch, target.own, target.option)
    store.write_json(target.own.half.folder / "kernel.json", record)
    beside, text = target.own.half.folder / LAUNCH_NAME, target.launch.encode()
    if store.exists(beside) and own_files.read(beside) == text:
        return False
    store.write_bytes(beside, text)
    return True


def _write_guessed_launch(target: Wanted, workspace: Path, note: Note) -> None:
    """Write a launch guessed from the code into the kernel's record, if no host code or capture has one."""
    kernel, place = target.kernel, Workspace(workspace)
    hosts = host_files.hosts(kernel, host_files.roots((target.own.path.parent,), place))
    launched = any(
        launch.kernel.decode("latin-1") == kernel.name for unit in hosts for launch in unit.launches
    )
    if (
        kernel.launch_sites
        or launched
        or Captures(place, silent).of(kernel, target.own.half.code) is not None
    ):
        return
    if (record := launches.guessed(target.own, target.option, note)) is not None:
        store.write_json(target.own.half.folder / "kernel.json", record)


def _ask_launches(wanted: Sequence[Wanted], workspace: Path, ask: Ask, note: Note) -> None:
    """Ask for the launches of kernels that nothing launches, and draft those that get an answer."""
    answered = []
    for target in wanted:
        name = target.own.half.kernel.name
        grid = ask(f"nothing launches {name}; its grid, as in <<<GRID, BLOCK>>>, over its parameters", "")
        if grid.strip():
            answered.append(replace(target, launch=f"{grid}, {ask(f'the block of {name}', '128')}"))
    for target in answered:
        _write_launch(target)
    _draft(answered, workspace, note)


def _ask_fields(target: Wanted, workspace: Path, ask: Ask, note: Note) -> str:
    """Ask for each open place of a draft; each answer is written before the next question.

    Returns why the problem is not admitted even then (empty: it is).
    """
    unanswered: set[int] = set()
    while fields := [field for field in open_fields(_text(target)) if field.line not in unanswered]:
        answer = ask(f"{fields[0].place}: {fields[0].what}", fields[0].value).strip()
        changed = filled(_text(target), fields[0], answer)
        if changed is not None:
            store.write_bytes(target.form, changed.encode())
        elif answer:
            note(f"not a value: {answer}")
        else:
            unanswered.add(fields[0].line)
    try:
        check((target.form,), workspace)
    except InputError as error:
        return error.what
    return ""


def _text(target: Wanted) -> str:
    return own_files.read(target.form).decode()
