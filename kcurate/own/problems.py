"""Finds an admitted problem for one of a user's kernels: in the workspace, else drafted, else by questions.

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
from kcurate.own.kernels import UserKernel, compile_error, missing_include
from kcurate.records import Kernel, Outcome, Verdict
from kcurate.suites.problems import PROBLEM_NAME, own_problem

# Asks a person: the question and the value so far; returns the answer (empty: keep the value).
Ask = Callable[[str, str], str]
# Beside a kernel: what its draft was made for.
DRAFTED_NAME = "drafted.json"
# Open places counted for a kernel without a launch, so that a draft with a plan is completed first.
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
    """What a draft was made for: ids of its text (`form`) and of the kernel, and the launch of an option.

    `failed`: that launch failed, so it is not used again. `guessed`: neither an option nor host code had a
    launch.
    """

    form: str
    kernel: str
    launch: str | None
    failed: bool = False
    guessed: bool = False


@dataclass(frozen=True)
class KernelRequest:
    """A kernel, and its launch (`GRID, BLOCK`) from a command-line option named `option`; None: not given."""

    user_kernel: UserKernel
    launch: str | None
    option: str

    @property
    def kernel(self) -> Kernel:
        """Its record `kernel.json`, which also has the launch of the option."""
        return store.read_json(self.user_kernel.extracted.folder / "kernel.json", Kernel)

    @property
    def has_own_launch(self) -> bool:
        """Whether its record has a launch, given or guessed, that its file does not have."""
        return self.kernel.launch_sites != self.user_kernel.kernel.launch_sites

    @property
    def place(self) -> str:
        """`fast side, FILE:KERNEL`, by the option's name; without the side if there is only one kernel."""
        side = self.option.removeprefix("--").removesuffix("launch").removesuffix("-")
        return f"{side} side, {self.user_kernel.name}" if side else self.user_kernel.name

    @property
    def given_launch(self) -> str:
        """`--fast-launch, ` for hints on what to correct; empty if the option was not given."""
        return f"{self.option}, " if self.launch else ""

    @property
    def form(self) -> Path:
        """The TOML file of its draft."""
        return self.user_kernel.extracted.folder / FORM_NAME

    @property
    def known(self) -> bool:
        """Whether it has an admitted problem."""
        return self.user_kernel.extracted.known() is not None

    @property
    def drafted_for(self) -> _Drafted | None:
        """What its draft was made for; None: no draft, or one that somebody wrote."""
        path = self.form.with_name(DRAFTED_NAME)
        if not (store.exists(path) and store.exists(self.form)):
            return None
        return codec.from_data(_Drafted, codec.parse(own_files.read(path), where=str(path)))

    @property
    def drafted(self) -> _Drafted | None:
        """`drafted_for`, but None if somebody edited the draft since."""
        made_for = self.drafted_for
        return made_for if made_for and made_for.form == store.content_id(own_files.read(self.form)) else None

    def _keep(self, drafted: _Drafted) -> None:
        store.write_bytes(self.form.with_name(DRAFTED_NAME), store.pretty_json(codec.to_data(drafted)))

    def remember(self) -> None:
        """Write down what its draft, as it is now, was made for."""
        if store.exists(self.form):
            guessed = not self.launch and self.has_own_launch
            form = store.content_id(own_files.read(self.form))
            self._keep(_Drafted(form, self.code_id, self.launch, guessed=guessed))

    def forget_launch(self) -> None:
        """Write down that the option's launch failed, so that the next run does not reuse it."""
        if self.launch is not None and (drafted := self.drafted) is not None:
            self._keep(replace(drafted, failed=True))

    @property
    def code_id(self) -> str:
        """The kernel's code, and how its own file launches it."""
        half = self.user_kernel.extracted
        sites = [(site.grid, site.block, site.shared_bytes) for site in half.kernel.launch_sites]
        return store.content_id(half.code, repr(sites))


def find_problem(
    requests: Sequence[KernelRequest], workspace: Path, *, ask: Ask | None, command: str, note: Note = silent
) -> None:
    """Get an admitted problem for one of the kernels, and a draft for each kernel that is launched.

    `ask` None: no questions. `command`: what to run once a person has filled in the open places.

    Raises:
        InputError: no problem is admitted; the message names the file to complete, `note` receives each open
            place.
    """
    states = [(request, _state(request, workspace, note)) for request in map(_with_earlier_launch, requests)]
    refusals = {request.form: state.refused for request, state in states if state.refused is not None}
    refusals |= _draft([request for request, state in states if state.needs_draft], workspace, note)
    _note_launches_and_refusals(requests, states, note)
    if ask is not None:
        unlaunched = [request for request in requests if launchless(request) and not request.known]
        _ask_launches(unlaunched, workspace, ask, note)
        if not any(request.known for request in requests):
            easiest = min(requests, key=_open_places)
            if (refusal := _ask_fields(easiest, workspace, ask, note)) is not None:
                refusals[easiest.form] = refusal
    if not any(request.known for request in requests):
        easiest = min(requests, key=_open_places)
        if not _open_places(easiest):
            easiest.forget_launch()
        if launchless(easiest):
            raise _unlaunched(easiest, workspace)
        raise _unadmitted(easiest, refusals.get(easiest.form, _Refusal()), command, note)


def _note_launches_and_refusals(
    requests: Sequence[KernelRequest], states: Sequence[tuple[KernelRequest, _State]], note: Note
) -> None:
    """Note launches of earlier runs, and refused drafts that the other kernel's problem makes up for.

    `states`: the requests with such launches, in the same order, and what they needed.
    """
    for request, (with_launch, state) in zip(requests, states, strict=True):
        is_reused = with_launch.launch or not state.needs_draft
        if request.launch is None and is_reused and (line := _earlier_launch_note(request)):
            note(line)
    if any(request.known for request in requests):
        for request, state in states:
            if state.refused is not None and not launchless(request):
                note(f"{request.form}: not used: {state.refused.why}")


def _unlaunched(request: KernelRequest, workspace: Path) -> InputError:
    error = InputError(
        f"nothing launches {request.kernel.name}",
        where=str(request.user_kernel.path),
        hint=f"say how with {request.option} {launches.FORM}; or add a host function that launches it; "
        f"or run your program once: kcurate capture -w {workspace} -- ./program",
    )
    return missing_include(request.user_kernel, error) or error


def _unadmitted(request: KernelRequest, refusal: _Refusal, command: str, note: Note) -> InputError:
    """What is wrong with a draft on file; `note` receives each open place."""
    faults = toml_reader.read(request.form).faults
    for fault in faults:
        note(str(fault))
    redraft = f"or delete it to have it drafted again; then: {command}"
    if faults:
        places = "1 place is" if len(faults) == 1 else f"{len(faults)} places are"
        what = f"no problem yet for {request.user_kernel.name}: {places} open"
        return InputError(what, where=str(request.form), hint=f"complete the file, {redraft}")
    verdict = refusal.verdict
    compiles = verdict is None or verdict.outcome is not Outcome.COMPILE_ERROR
    if verdict and not compiles and first_error(verdict.log or "", request.user_kernel.code) is not None:
        return not_compiled(request, verdict)
    hint = f"correct {request.given_launch}the code, or {request.form}, {redraft}"
    return InputError(f"no problem yet: {refusal.why}", where=request.place, hint=hint)


def not_compiled(request: KernelRequest, verdict: Verdict) -> InputError:
    """The compiler's first message about a kernel's code, at its side and line."""
    error = compile_error(request.user_kernel, verdict.log or verdict.detail, "correct it there")
    error.where = f"{request.place.partition(',')[0]}, {error.where}"
    return error


def _open_places(request: KernelRequest) -> int:
    return LAUNCHLESS_PLACES if launchless(request) else len(toml_reader.read(request.form).faults)


def launchless(request: KernelRequest) -> bool:
    """Whether its draft has no plan, because nothing launches it."""
    try:
        sides = tomllib.loads(own_files.read(request.form).decode())["sides"]
        return not any(side.get("plan") for side in sides.values())
    except (KcurateError, ValueError, KeyError, AttributeError):
        return False  # no draft, or none that can be read


def _state(request: KernelRequest, workspace: Path, note: Note) -> _State:
    """What a kernel needs, after writing its launch into its record or taking over the problem of equal code.

    A draft that was edited since it was admitted is checked again; a draft for another launch or other code
    is made anew, unless somebody edited it or its launch was given.
    """
    if _write_launch(request):
        return _State(needs_draft=True)
    record, drafted = request.form.with_name(PROBLEM_NAME), request.drafted
    if drafted is not None and drafted.failed:
        store.remove(request.form)
        store.remove(record)
        edited_form = _edited_form(request)
        if store.exists(edited_form):
            edited_form.replace(request.form)
    elif drafted is not None and drafted.launch is None and drafted.kernel != request.code_id:
        _write_guessed_launch(request, workspace, note)
        return _State(needs_draft=True)
    written = store.exists(record) and store.exists(request.form)
    edited = written and request.form.stat().st_mtime_ns > record.stat().st_mtime_ns
    if not edited and (request.known or _take_over_problem(request.user_kernel, workspace)):
        return _State(needs_draft=False)
    if not store.exists(request.form) or launchless(request):
        _write_guessed_launch(request, workspace, note)
        if not store.exists(request.form) or request.kernel.launch_sites:
            return _State(needs_draft=True)
    refusal = _refused(request, workspace)
    return _State(refusal is not None and _recorded_since(request, workspace), refusal)


def _refused(request: KernelRequest, workspace: Path) -> _Refusal | None:
    """Check the draft on file; returns why it is refused, or None once it is admitted and written as the
    problem."""
    faults: list[toml_reader.Fault] = []
    try:
        check((request.form,), workspace, on_fault=faults.append)
    except InputError as error:
        return _Refusal(error.what, faults[0].verdict if faults else None)
    return None


def _recorded_since(request: KernelRequest, workspace: Path) -> bool:
    """Whether a captured program launched the kernel after its draft was written."""
    drafted_ns = request.form.stat().st_mtime_ns
    in_workspace = Workspace(workspace)
    if not any(path.stat().st_mtime_ns > drafted_ns for path in in_workspace.captures.glob("*/*.json")):
        return False
    return Captures(in_workspace, silent).of(request.kernel, request.user_kernel.code) is not None


def _draft(requests: Sequence[KernelRequest], workspace: Path, note: Note) -> dict[Path, _Refusal]:
    """Draft these kernels anew; returns the refusals by the draft's file."""
    settled: dict[str, Settled] = {}
    for request in requests:
        if request.drafted is not None:
            store.remove(request.form)
        elif store.exists(request.form):
            request.form.replace(_edited_form(request))
    folders = tuple(str(request.user_kernel.extracted.folder) for request in requests)
    trees = tuple({request.user_kernel.path.parent for request in requests})
    try:
        if requests:
            draft(DraftConfig(workspace, folders, trees), note=note, on_kernel=settled.__setitem__)
    except InputError:  # nothing launches one of them, as its file says
        if not all(store.exists(request.form) for request in requests):
            raise
    for request in requests:
        request.remember()
    unadmitted = {
        request.form: settled.get(request.user_kernel.kernel.id) for request in requests if not request.known
    }
    return {
        form: _Refusal(result.line, result.verdict) if result else _Refusal("")
        for form, result in unadmitted.items()
    }


def _edited_form(request: KernelRequest) -> Path:
    """Where a draft that somebody wrote or edited is kept while an option's launch is tried."""
    return request.form.with_name(f"{FORM_NAME}.old")


def _with_earlier_launch(request: KernelRequest) -> KernelRequest:
    """The request with the launch of an earlier run's option, if that did not fail and still fits."""
    drafted = request.drafted
    if request.launch is None and drafted and drafted.launch and not drafted.failed:
        with contextlib.suppress(OptionError):
            launches.written(drafted.launch, request.user_kernel, request.option)
            return replace(request, launch=drafted.launch)
    return request


def _earlier_launch_note(request: KernelRequest) -> str | None:
    """The note on a launch from an earlier run or an edited draft; None if there is none."""
    file = request.form if store.exists(request.form) else request.form.with_name(PROBLEM_NAME)
    problem = request.user_kernel.extracted.known() or request.user_kernel.extracted.unfinished_draft()
    if request.launch is not None or problem is None or not store.exists(file) or launchless(request):
        return None
    how = " then ".join(f"<<<{shown_launch(launch)}>>>" for launch in launches_of(problem.side.plan))
    same_code = (None, store.content_id(request.user_kernel.code))
    other_code = file == request.form and toml_reader.read(file).code_id not in same_code
    stays = "; it stays though the code has changed, delete it to have it drafted again" if other_code else ""
    launched = f"launched as {how}, as {file} says{stays} (else: {request.option} LAUNCH)"
    return f"{request.user_kernel.name}: {launched}"


def _take_over_problem(user_kernel: UserKernel, workspace: Path) -> bool:
    """Copy the admitted problem of another kernel with equal code, if any; returns whether there was one."""
    code_id = store.content_id(user_kernel.code)
    for path in store.find(Workspace(workspace).kernels, PROBLEM_NAME):
        try:
            if f'"{code_id}"'.encode() not in own_files.read(path):
                continue
            kernel = store.read_json(path.with_name("kernel.json"), Kernel)
            known = own_problem(path.parent, user_kernel.code)
        except InputError:  # a damaged kernel elsewhere is no reason to stop
            continue
        variant, own_variant = kernel.variant or "", user_kernel.kernel.variant or ""
        if known is not None and kernel.name == user_kernel.kernel.name and variant in known.sides:
            problem = replace(known, sides={own_variant: known.sides[variant]})
            store.write_json(user_kernel.extracted.folder / PROBLEM_NAME, problem)
            return True
    return False


def _write_launch(request: KernelRequest) -> bool:
    """Write the option's launch into the kernel's record; returns whether its draft was made for another one.

    Raises:
        OptionError: the text is not a launch.
    """
    if request.launch is None:
        return False
    record = launches.written(request.launch, request.user_kernel, request.option)
    store.write_json(request.user_kernel.extracted.folder / "kernel.json", record)
    if (drafted := request.drafted) is not None:
        return drafted != _Drafted(drafted.form, request.code_id, request.launch)
    edited = request.drafted_for  # which stays as it is for the same launch
    return edited is None or edited.launch != request.launch


def _write_guessed_launch(request: KernelRequest, workspace: Path, note: Note) -> None:
    """Write a launch guessed from the code into the kernel's record, if no host code or capture has one."""
    kernel, in_workspace = request.kernel, Workspace(workspace)
    hosts = host_files.hosts(kernel, host_files.roots((request.user_kernel.path.parent,), in_workspace))
    launched = {launch.kernel.decode("latin-1") for unit in hosts for launch in unit.launches}
    if kernel.launch_sites or kernel.name in launched:
        return
    if Captures(in_workspace, silent).of(kernel, request.user_kernel.code) is not None:
        return
    launches.refuse_open_template(request.user_kernel, request.option)
    if (record := launches.guessed(request.user_kernel, request.option, note)) is not None:
        store.write_json(request.user_kernel.extracted.folder / "kernel.json", record)


def _ask_launches(requests: Sequence[KernelRequest], workspace: Path, ask: Ask, note: Note) -> None:
    """Ask for the launches of kernels that nothing launches, and draft those that get an answer."""
    answered = []
    for request in requests:
        name = request.user_kernel.kernel.name
        grid = ask(f"nothing launches {name}; its grid, as in <<<GRID, BLOCK>>>, over its parameters", "")
        if grid.strip():
            answered.append(replace(request, launch=f"{grid}, {ask(f'the block of {name}', '128')}"))
    for request in answered:
        _write_launch(request)
    _draft(answered, workspace, note)


def _ask_fields(request: KernelRequest, workspace: Path, ask: Ask, note: Note) -> _Refusal | None:
    """Ask for each open place of a draft; each answer is written before the next question.

    Returns why the problem is still not admitted; None if it is.
    """
    unanswered: set[int] = set()
    while fields := [field for field in open_fields(_text(request)) if field.line not in unanswered]:
        answer = ask(f"{fields[0].place}: {fields[0].what}", fields[0].value).strip()
        changed = filled(_text(request), fields[0], answer)
        if changed is not None:
            store.write_bytes(request.form, changed.encode())
        elif answer:
            note(f"not a value: {answer}")
        else:
            unanswered.add(fields[0].line)
    return _refused(request, workspace)


def _text(request: KernelRequest) -> str:
    return own_files.read(request.form).decode()
