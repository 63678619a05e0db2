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
from kcurate.cuda_source.brackets import split_arguments
from kcurate.draft import reading
from kcurate.draft.captures import Captures
from kcurate.draft.checking import check
from kcurate.draft.counterpart import FORM_NAME
from kcurate.draft.filling import filled, open_fields
from kcurate.draft.stage import DraftConfig, draft
from kcurate.errors import InputError
from kcurate.own.kernels import Own
from kcurate.records import Argument, Kernel, LaunchSite
from kcurate.suites.problems import PROBLEM_NAME, own_problem

# Asks a person: the question and the value so far; returns the answer (empty: keep the value).
Ask = Callable[[str, str], str]
LAUNCH_FORM = "'GRID, BLOCK' as in <<<GRID, BLOCK>>>, over the kernel's parameters: '(n + 127) / 128, 128'"


@dataclass(frozen=True)
class Wanted:
    """A kernel, and how it is launched if no host code tells (`GRID, BLOCK`; None: not said in `option`)."""

    own: Own
    launch: str | None
    option: str

    @property
    def kernel(self) -> Kernel:
        """The record, with the launch that was given for it."""
        return store.read_json(self.own.half.folder / "kernel.json", Kernel)

    @property
    def form(self) -> Path:
        """The file of its draft."""
        return self.own.half.folder / FORM_NAME

    @property
    def known(self) -> bool:
        """Whether it has an admitted problem."""
        return self.own.half.known() is not None


def find_problem(
    wanted: Sequence[Wanted], workspace: Path, *, ask: Ask | None, command: str, note: Note = silent
) -> None:
    """See to it that one of the kernels has an admitted problem, and that each that is launched has a draft.

    `ask` None: nobody is there to answer. `command` is what to run once a person has filled in the rest.

    Raises:
        InputError: no problem is admitted; the message names the file to complete, `note` receives each open
            place.
    """
    ready = [(one, *_prepared(one, workspace)) for one in wanted]
    against = {one.form: why for one, _, why in ready if why is not None}
    against |= _draft([one for one, undrafted, _ in ready if undrafted], workspace, note)
    if ask is not None:
        _ask_launches([one for one in wanted if launchless(one) and not one.known], workspace, ask, note)
        if not any(one.known for one in wanted):
            asked = min(wanted, key=_open)
            against |= {asked.form: _ask_fields(asked, workspace, ask, note)}
    if any(one.known for one in wanted):
        return
    first = min(wanted, key=_open)
    if launchless(first):
        raise InputError(
            f"nothing launches {first.kernel.name}",
            where=str(first.own.path),
            hint=f"say how with {first.option} {LAUNCH_FORM}; or add a host function that launches it; "
            f"or run your program once: kcurate capture -w {workspace} -- ./program",
        )
    if (built := first.kernel.compiled) is not None and not built.ok:
        hint = "make the file complete (includes, definitions) so that the kernel can be extracted alone"
        raise InputError(
            f"{first.kernel.name} does not compile by itself", where=str(first.own.path), hint=hint
        )
    faults = reading.read(first.form).faults
    for fault in faults:
        note(str(fault))
    what = f"{len(faults)} places are open" if faults else against.get(first.form, "it was refused")
    again = f"complete the file, or delete it to have it drafted again; then: {command}"
    raise InputError(f"no problem yet for {first.own.name}: {what}", where=str(first.form), hint=again)


def _open(one: Wanted) -> int:
    return 1000 if launchless(one) else len(reading.read(one.form).faults)


def launchless(one: Wanted) -> bool:
    """Whether its draft has no plan, because nothing launches it."""
    try:
        sides = tomllib.loads(one.form.read_text(encoding="utf-8"))["sides"]
        return not any(side.get("plan") for side in sides.values())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def _prepared(one: Wanted, workspace: Path) -> tuple[bool, str | None]:
    """Whether a kernel needs a new draft; else why its file is not admitted (None: it is).

    A file that was edited since it was admitted is checked again.
    """
    _launched(one)
    record = one.form.with_name(PROBLEM_NAME)
    edited = record.exists() and one.form.exists() and one.form.stat().st_mtime_ns > record.stat().st_mtime_ns
    if not edited and (one.known or _same_code(one.own, workspace)):
        return False, None
    if not one.form.exists() or (launchless(one) and one.kernel.launch_sites):
        return True, None
    try:
        check((one.form,), workspace)
    except InputError as error:
        return _recorded_since(one, workspace), error.what
    return False, None


def _recorded_since(one: Wanted, workspace: Path) -> bool:
    """Whether a running program launched the kernel after its draft was written."""
    made_ns = one.form.stat().st_mtime_ns
    records = Workspace(workspace).captures.glob("*/*.json")
    newer = any(path.stat().st_mtime_ns > made_ns for path in records)
    return newer and Captures(Workspace(workspace), silent).of(one.kernel, one.own.half.code) is not None


def _draft(wanted: Sequence[Wanted], workspace: Path, note: Note) -> dict[Path, str]:
    """Draft what has no draft yet, or one without a launch; the message on each that is not admitted."""
    if not wanted:
        return {}
    lines: dict[str, str] = {}

    def noted(line: str) -> None:
        kernel, _, rest = line.partition(": ")
        lines[kernel] = rest
        note(line)

    for one in wanted:
        if one.form.exists():
            one.form.replace(one.form.with_name(f"{FORM_NAME}.old"))
    folders = tuple(str(one.own.half.folder) for one in wanted)
    trees = () if any(one.launch for one in wanted) else tuple({one.own.path.parent for one in wanted})
    try:
        draft(DraftConfig(workspace, folders, trees), note=noted)
    except InputError:  # nothing launches one of them, as its file says
        if not all(one.form.exists() for one in wanted):
            raise
    return {one.form: lines.get(one.own.half.kernel.id, "") for one in wanted if not one.known}


def _same_code(own: Own, workspace: Path) -> bool:
    """Take over the admitted problem of the same kernel from elsewhere in the workspace, if there is one."""
    code_id = store.content_id(own.half.code)
    for path in sorted(Workspace(workspace).kernels.rglob(PROBLEM_NAME)):
        try:
            if f'"{code_id}"'.encode() not in own_files.read(path):
                continue
            kernel = store.read_json(path.with_name("kernel.json"), Kernel)
            known = own_problem(path.parent, own.half.code)
        except InputError:  # a damaged kernel elsewhere is no reason to stop
            continue
        variant, mine = kernel.variant or "", own.half.kernel.variant or ""
        if known is not None and kernel.name == own.half.kernel.name and variant in known.sides:
            taken = replace(known, sides={mine: known.sides[variant]})
            store.write_json(own.half.folder / PROBLEM_NAME, taken)
            return True
    return False


def _launched(one: Wanted) -> None:
    """Write how the kernel is launched into its record, as if its file had the launch.

    Raises:
        InputError: the file has a launch already, or the text is not of the form.
    """
    if one.launch is None:
        return
    path = one.own.half.folder / "kernel.json"
    kernel = one.own.half.kernel
    if kernel.launch_sites:
        site = kernel.launch_sites[0]
        where = f"{site.path}:{site.line}"
        raise InputError(f"{one.own.name} is launched in {where}", where=one.option, hint="leave it out")
    parts = [part.decode().strip() for part in split_arguments(one.launch.encode())]
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise InputError(f"not a launch: {one.launch!r}", where=one.option, hint=LAUNCH_FORM)
    made = LaunchSite(
        kernel.span.path,
        kernel.span.start_line,
        parts[0],
        parts[1],
        parts[2] if parts[2:] else None,
        arguments=tuple(Argument(param.name) for param in kernel.params),
    )
    store.write_json(path, replace(kernel, launch_sites=(made,)))


def _ask_launches(wanted: Sequence[Wanted], workspace: Path, ask: Ask, note: Note) -> None:
    """Ask how the kernels that nothing launches are launched, and draft them; without an answer one stays."""
    told = []
    for one in wanted:
        name = one.own.half.kernel.name
        grid = ask(f"nothing launches {name}; its grid, as in <<<GRID, BLOCK>>>, over its parameters", "")
        if grid.strip():
            told.append(replace(one, launch=f"{grid}, {ask(f'the block of {name}', '128')}"))
    for one in told:
        _launched(one)
    _draft(told, workspace, note)


def _ask_fields(one: Wanted, workspace: Path, ask: Ask, note: Note) -> str:
    """Ask for what is open, place after place; each answer is in the file before the next question.

    Returns why the file is not admitted even so (empty: it is).
    """
    unanswered: set[int] = set()
    while fields := [field for field in open_fields(_text(one)) if field.line not in unanswered]:
        answer = ask(f"{fields[0].place}: {fields[0].what}", fields[0].value).strip()
        changed = filled(_text(one), fields[0], answer)
        if changed is not None:
            store.write_bytes(one.form, changed.encode())
        elif answer:
            note(f"not a value: {answer}")
        else:
            unanswered.add(fields[0].line)
    try:
        check((one.form,), workspace)
    except InputError as error:
        return error.what
    return ""


def _text(one: Wanted) -> str:
    return one.form.read_text(encoding="utf-8")
