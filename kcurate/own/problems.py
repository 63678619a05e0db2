"""An admitted problem for one of a user's kernels: what the workspace has, else drafted, else asked for.

Not covered: drafting, checking and admission (`kcurate.draft`), recording a problem from a running program.
"""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import codec, own_files, store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.draft.captured.launch_records import Captures
from kcurate.draft.file import toml_reader
from kcurate.draft.file.open_places import filled, open_fields
from kcurate.draft.for_pairs.other_kernel import FORM_NAME, launches_of, shown_launch
from kcurate.draft.host import host_files
from kcurate.draft.settings import DraftConfig
from kcurate.draft.stage import draft
from kcurate.draft.trying.completed_files import check
from kcurate.draft.trying.draft_choice import Settled
from kcurate.errors import InputError, KcurateError, OptionError
from kcurate.judge.workers.own_lines import first_error
from kcurate.own import launches
from kcurate.own.kernels import Own, compile_error, missing_include
from kcurate.records import Kernel, Outcome, Verdict
from kcurate.suites.problems import PROBLEM_NAME, own_problem

# Asks a person: the question and the value so far; returns the answer (empty: keep the value).
Ask = Callable[[str, str], str]
# Beside a kernel: what its draft was made for.
DRAFTED_NAME = "drafted.json"
# Counted for a kernel without a launch, so that any draft with a plan is completed first.
LAUNCHLESS_PLACES = 1000


@dataclass(frozen=True)
class _Refusal:
    """Why a draft is not admitted; `verdict`: of the judge that refused it."""

    why: str = "it was refused"
    verdict: Verdict | None = None


@dataclass(frozen=True)
class _State:
    """Whether a kernel needs a new draft; `refused`: why the one on file was (None: it was not)."""

    needs_draft: bool
    refused: _Refusal | None = None


@dataclass(frozen=True)
class _Drafted:
    """What a draft was made for: ids of its text and of the kernel, the launch that an option gave.

    `failed`: that launch failed, so it is not used again. `guessed`: no option gave one, nor host code.
    """

    form: str
    kernel: str
    launch: str | None
    failed: bool = False
    guessed: bool = False


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
    def has_launch_of_its_own(self) -> bool:
        """Whether its record has a launch that its file does not say: given or guessed."""
        return self.kernel.launch_sites != self.own.half.kernel.launch_sites

    @property
    def place(self) -> str:
        """`fast side, FILE:KERNEL`, by the option's name; without the side where there is but one."""
        side = self.option.removeprefix("--").removesuffix("launch").removesuffix("-")
        return f"{side} side, {self.own.name}" if side else self.own.name

    @property
    def given_launch(self) -> str:
        """`--fast-launch, ` for hints on what to correct; empty if the option was not given."""
        return f"{self.option}, " if self.launch else ""

    @property
    def form(self) -> Path:
        """The TOML file of its draft."""
        return self.own.half.folder / FORM_NAME

    @property
    def known(self) -> bool:
        """Whether it has an admitted problem."""
        return self.own.half.known() is not None

    @property
    def drafted_for(self) -> _Drafted | None:
        """What its draft was made for; None: no draft, or one that somebody wrote."""
        path = self.form.with_name(DRAFTED_NAME)
        if not (store.exists(path) and store.exists(self.form)):
            return None
        return codec.from_data(_Drafted, codec.parse(own_files.read(path), where=str(path)))

    @property
    def drafted(self) -> _Drafted | None:
        """The same; None too where somebody edited the draft."""
        made_for = self.drafted_for
        return made_for if made_for and made_for.form == store.content_id(own_files.read(self.form)) else None

    def _keep(self, drafted: _Drafted) -> None:
        store.write_bytes(self.form.with_name(DRAFTED_NAME), store.pretty_json(codec.to_data(drafted)))

    def remember(self) -> None:
        """Keep what its draft, as it is now, was made for."""
        if store.exists(self.form):
            guessed = not self.launch and self.has_launch_of_its_own
            form = store.content_id(own_files.read(self.form))
            self._keep(_Drafted(form, self.code_id, self.launch, guessed=guessed))

    def forget_launch(self) -> None:
        """The launch that an option gave failed: the next run is not to take it up."""
        if self.launch is not None and (drafted := self.drafted) is not None:
            self._keep(replace(drafted, failed=True))

    @property
    def code_id(self) -> str:
        """The kernel's code, and how its own file launches it."""
        half = self.own.half
        sites = [(site.grid, site.block, site.shared_bytes) for site in half.kernel.launch_sites]
        return store.content_id(half.code, repr(sites))


def find_problem(
    wanted: Sequence[Wanted], workspace: Path, *, ask: Ask | None, command: str, note: Note = silent
) -> None:
    """Give one of the kernels an admitted problem, and each that is launched a draft.

    `ask` None: nobody is there to answer. `command` is what to run once a person has filled in the rest.

    Raises:
        InputError: no problem is admitted; the message names the file to complete, `note` receives each open
            place.
    """
    states = [(target, _state(target, workspace, note)) for target in map(_as_before, wanted)]
    refusals = {target.form: state.refused for target, state in states if state.refused is not None}
    refusals |= _draft([target for target, state in states if state.needs_draft], workspace, note)
    for asked, (target, state) in zip(wanted, states, strict=True):
        if asked.launch is None and (target.launch or not state.needs_draft) and (line := _remembered(asked)):
            note(line)
    if any(target.known for target in wanted):
        for target, state in states:
            if state.refused is not None and not launchless(target):
                note(f"{target.form}: not used: {state.refused.why}")
    if ask is not None:
        unlaunched = [target for target in wanted if launchless(target) and not target.known]
        _ask_launches(unlaunched, workspace, ask, note)
        if not any(target.known for target in wanted):
            target = min(wanted, key=_open_places)
            if (refusal := _ask_fields(target, workspace, ask, note)) is not None:
                refusals[target.form] = refusal
    if not any(target.known for target in wanted):
        first = min(wanted, key=_open_places)
        if not _open_places(first):
            first.forget_launch()
        if launchless(first):
            raise _unlaunched(first, workspace)
        raise _unadmitted(first, refusals.get(first.form, _Refusal()), command, note)


def _unlaunched(target: Wanted, workspace: Path) -> InputError:
    error = InputError(
        f"nothing launches {target.kernel.name}",
        where=str(target.own.path),
        hint=f"say how with {target.option} {launches.FORM}; or add a host function that launches it; "
        f"or run your program once: kcurate capture -w {workspace} -- ./program",
    )
    return missing_include(target.own, error) or error


def _unadmitted(target: Wanted, refusal: _Refusal, command: str, note: Note) -> InputError:
    """What is wrong with a draft on file; `note` receives each open place."""
    faults = toml_reader.read(target.form).faults
    for fault in faults:
        note(str(fault))
    again = f"or delete it to have it drafted again; then: {command}"
    if faults:
        places = "1 place is" if len(faults) == 1 else f"{len(faults)} places are"
        what = f"no problem yet for {target.own.name}: {places} open"
        return InputError(what, where=str(target.form), hint=f"complete the file, {again}")
    verdict = refusal.verdict
    compiles = verdict is None or verdict.outcome is not Outcome.COMPILE_ERROR
    if verdict and not compiles and first_error(verdict.log or "", target.own.half.code) is not None:
        return not_compiled(target, verdict)
    hint = f"correct {target.given_launch}the code, or {target.form}, {again}"
    return InputError(f"no problem yet: {refusal.why}", where=target.place, hint=hint)


def not_compiled(target: Wanted, verdict: Verdict) -> InputError:
    """The compiler's first message about a kernel's code, at its side and line."""
    error = compile_error(target.own, verdict.log or verdict.detail, "correct it there")
    error.where = f"{target.place.partition(',')[0]}, {error.where}"
    return error


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

    A draft that was edited since it was admitted is checked again; one for another launch is drafted anew, as
    is one for other code, unless somebody edited it or its launch was given.
    """
    if _write_launch(target):
        return _State(needs_draft=True)
    record, drafted = target.form.with_name(PROBLEM_NAME), target.drafted
    if drafted is not None and drafted.failed:
        store.remove(target.form)
        store.remove(record)
        before = _before(target)
        if store.exists(before):
            before.replace(target.form)
    elif drafted is not None and drafted.launch is None and drafted.kernel != target.code_id:
        _write_guessed_launch(target, workspace, note)
        return _State(needs_draft=True)
    written = store.exists(record) and store.exists(target.form)
    edited = written and target.form.stat().st_mtime_ns > record.stat().st_mtime_ns
    if not edited and (target.known or _take_over_problem(target.own, workspace)):
        return _State(needs_draft=False)
    if not store.exists(target.form) or launchless(target):
        _write_guessed_launch(target, workspace, note)
        if not store.exists(target.form) or target.kernel.launch_sites:
            return _State(needs_draft=True)
    refusal = _refused(target, workspace)
    return _State(refusal is not None and _recorded_since(target, workspace), refusal)


def _refused(target: Wanted, workspace: Path) -> _Refusal | None:
    """Why a draft on file is not admitted; None: it is, and is the kernel's problem now."""
    faults: list[toml_reader.Fault] = []
    try:
        check((target.form,), workspace, on_fault=faults.append)
    except InputError as error:
        return _Refusal(error.what, faults[0].verdict if faults else None)
    return None


def _recorded_since(target: Wanted, workspace: Path) -> bool:
    """Whether a captured program launched the kernel after its draft was written."""
    drafted_ns = target.form.stat().st_mtime_ns
    place = Workspace(workspace)
    if not any(path.stat().st_mtime_ns > drafted_ns for path in place.captures.glob("*/*.json")):
        return False
    return Captures(place, silent).of(target.kernel, target.own.half.code) is not None


def _draft(wanted: Sequence[Wanted], workspace: Path, note: Note) -> dict[Path, _Refusal]:
    """Draft these kernels anew; returns why each that is not admitted is not, by its draft's file."""
    settled: dict[str, Settled] = {}
    for target in wanted:
        if target.drafted is not None:
            store.remove(target.form)
        elif store.exists(target.form):
            target.form.replace(_before(target))
    folders = tuple(str(target.own.half.folder) for target in wanted)
    trees = tuple({target.own.path.parent for target in wanted})
    try:
        if wanted:
            draft(DraftConfig(workspace, folders, trees), note=note, on_kernel=settled.__setitem__)
    except InputError:  # nothing launches one of them, as its file says
        if not all(store.exists(target.form) for target in wanted):
            raise
    for target in wanted:
        target.remember()
    left = {target.form: settled.get(target.own.half.kernel.id) for target in wanted if not target.known}
    return {form: _Refusal(each.line, each.verdict) if each else _Refusal("") for form, each in left.items()}


def _before(target: Wanted) -> Path:
    """Where the file is that somebody wrote or edited before the last launch that an option gave."""
    return target.form.with_name(f"{FORM_NAME}.old")


def _as_before(target: Wanted) -> Wanted:
    """With the launch that an option gave in an earlier run, if it did not fail and still fits."""
    drafted = target.drafted
    if target.launch is None and drafted and drafted.launch and not drafted.failed:
        with contextlib.suppress(OptionError):
            launches.written(drafted.launch, target.own, target.option)
            return replace(target, launch=drafted.launch)
    return target


def _remembered(target: Wanted) -> str | None:
    """The line on a launch that an earlier run left, or that somebody wrote; None: there is none."""
    place = target.form if store.exists(target.form) else target.form.with_name(PROBLEM_NAME)
    problem = target.own.half.known() or target.own.half.unfinished_draft()
    if target.launch is not None or problem is None or not store.exists(place) or launchless(target):
        return None
    how = " then ".join(f"<<<{shown_launch(launch)}>>>" for launch in launches_of(problem.side.plan))
    same_code = (None, store.content_id(target.own.half.code))
    other_code = place == target.form and toml_reader.read(place).code_id not in same_code
    stays = "; it stays though the code has changed, delete it to have it drafted again" if other_code else ""
    return f"{target.own.name}: launched as {how}, as {place} says{stays} (else: {target.option} LAUNCH)"


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
        OptionError: the text is not a launch.
    """
    if target.launch is None:
        return False
    record = launches.written(target.launch, target.own, target.option)
    store.write_json(target.own.half.folder / "kernel.json", record)
    if (drafted := target.drafted) is not None:
        return drafted != _Drafted(drafted.form, target.code_id, target.launch)
    edited = target.drafted_for  # which stays as it is for the same launch
    return edited is None or edited.launch != target.launch


def _write_guessed_launch(target: Wanted, workspace: Path, note: Note) -> None:
    """Write a launch guessed from the code into the kernel's record, if no host code or capture has one."""
    kernel, place = target.kernel, Workspace(workspace)
    hosts = host_files.hosts(kernel, host_files.roots((target.own.path.parent,), place))
    launched = {launch.kernel.decode("latin-1") for unit in hosts for launch in unit.launches}
    if kernel.launch_sites or kernel.name in launched:
        return
    if Captures(place, silent).of(kernel, target.own.half.code) is not None:
        return
    launches.refuse_open_template(target.own, target.option)
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


def _ask_fields(target: Wanted, workspace: Path, ask: Ask, note: Note) -> _Refusal | None:
    """Ask for each open place of a draft; each answer is written before the next question.

    Returns why the problem is not admitted even then; None: it is.
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
    return _refused(target, workspace)


def _text(target: Wanted) -> str:
    return own_files.read(target.form).decode()
