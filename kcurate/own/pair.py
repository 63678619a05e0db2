"""The stage: two kernels of the user's files become one candidate, with one problem for both.

Not covered: the verdict on the pair (`kcurate validate`), plans that launch several kernels.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.core import own_files, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.dataset.licences import spdx
from kcurate.draft.for_pairs.other_kernel import PairKernel, launches_of, match
from kcurate.draft.for_pairs.shared_problem import PairOutcome, PairResult, give_problem
from kcurate.draft.trying.completed_files import AdmittingJudge
from kcurate.errors import InputError, OptionError
from kcurate.extract.candidates import UNKNOWN_DOMAIN, joint_license
from kcurate.extract.naming import safe_part
from kcurate.own import launches
from kcurate.own.kernels import Own, find_kernels
from kcurate.own.problems import Ask, Wanted, find_problem, launchless, not_compiled
from kcurate.own.settings import PairConfig, flag_words
from kcurate.problem import c_types as types
from kcurate.records import SIDES, Candidate, Origin, Outcome, Param, Side, Summary, ValueArg
from kcurate.verdicts import items

SUITE = "own"
# A `mismatch` that is no wrong value: an access out of bounds, or a race.
_FAULT = re.compile(r"thread \(|outside|\brace")


def run(config: PairConfig, *, ask: Ask | None = None, note: Note = silent) -> Summary:
    """Write `pairs/own/<name>/`, once both kernels solve one problem alike on the emulator.

    Raises:
        InputError: unusable files or options, no admitted problem for either kernel, parameters without a
            counterpart, or results that differ. Nothing is written to `pairs/` then.
    """
    try:
        return _run(config, ask, note)
    except InputError as error:
        if not isinstance(error, OptionError):
            workspace, said = Workspace(config.workspace), [error.hint] if error.hint else []
            items.say_earlier_code(_pairs(workspace), workspace, said.append)
            error.hint = "; ".join(said) or None
        raise


def _run(config: PairConfig, ask: Ask | None, note: Note) -> Summary:
    licence = spdx(config.licence)
    launches.check_form(config.slow_launch, "--slow-launch")
    launches.check_form(config.fast_launch, "--fast-launch")
    with recorded("pair", config.workspace, note=note) as record:
        slow, fast = find_kernels(
            (config.slow, config.fast), config.workspace, note=record.note, licence=licence,
            define=config.define, include_dirs=config.include_dirs,
        )  # fmt: skip
        _check_pairing(slow, fast, licence)
        wanted = (
            Wanted(slow, config.slow_launch, "--slow-launch"),
            Wanted(fast, config.fast_launch, "--fast-launch"),
        )
        unmatched = _compare_parameters(*wanted, record.note)
        folder, pair = _candidate(config, slow, fast)
        record.begin(config)
        command = record.command("pair", config.slow, config.fast, *flag_words(config))
        find_problem(wanted, config.workspace, ask=ask, command=command, note=record.note)
        _say_guesses(wanted, record.note)
        guessed = [target for target in wanted if target.drafted and target.drafted.guessed]
        outcome = _judged(pair, wanted, fast_guessed=wanted[1] in guessed)
        form = next((target.form for target in wanted if store.exists(target.form)), None)
        record.item(
            "pairs", pair.id, outcome.outcome, outcome.why, passed=outcome.pair is not None, file=form
        )
        summary = record.finish({"pairs": {outcome.outcome.value: 1}})
        if outcome.pair is None:
            for target in wanted:
                target.forget_launch()
            raise _failure(outcome, wanted, unmatched)
        if outcome.why:
            record.note(outcome.why)
        names = ", ".join(target.own.half.kernel.name for target in guessed)
        marked = outcome.pair.description + (f" Launches guessed: {names}." if guessed else "")
        store.write_candidate(folder, replace(outcome.pair, description=marked))
        following = record.command("validate", folder)
        record.note(f"{folder}: both sides agree on the emulator; next: {following}")
        if outcome.pair.license is None:
            record.note(f"{pair.id} has no licence, so kcurate build leaves it out: add --licence SPDX")
        return summary


def _check_pairing(slow: Own, fast: Own, licence: str | None) -> None:
    """Whether the two may be a pair at all.

    Raises:
        InputError: they are one code, or a file's own licence refuses the one that was given.
    """
    if slow.half.code == fast.half.code:
        raise InputError("both sides are the same code", where=f"{slow.name}, {fast.name}")
    for own in (slow, fast):
        if licence and own.half.kernel.rights and own.half.kernel.rights.refused:
            raise InputError(own.half.kernel.rights.refused, where=own.name, hint="correct --licence")


def _say_guesses(wanted: tuple[Wanted, Wanted], note: Note) -> None:
    """Name each side that nothing launches, and the launch that is tried."""
    for target, other in zip(wanted, reversed(wanted), strict=True):
        if launchless(target) and not target.known:
            how = f"nothing launches it, so it is launched as {other.kernel.name}"
            note(f"{target.own.name}: {how} (else: {target.option} LAUNCH)")
        elif not target.launch and (guess := _one_of_several(target)):
            how = f"nothing launches it, and its code leaves several launches; {guess} is tried"
            note(f"{target.own.name}: {how} (else: {target.option} LAUNCH)")


def _judged(pair: Candidate, wanted: tuple[Wanted, Wanted], *, fast_guessed: bool) -> PairResult:
    """What the emulator says of both sides; refused if what it says may rest on a guess."""
    judging = progress.bar("judge both sides on the emulator")
    with contextlib.closing(AdmittingJudge()) as judge, judging:
        outcome = give_problem(pair, _with_launch(wanted[0]), _with_launch(wanted[1]), judge)
    if not (outcome.pair and outcome.verdict and fast_guessed) or _passes_share(outcome.pair):
        return outcome
    # A guess read from the code says nothing of what the kernel is meant for.
    meant = f"if it is meant for other sizes only, give its launch: {wanted[1].option}"
    why = f"{outcome.verdict.outcome}: {outcome.verdict.detail} ({meant})"
    return PairResult(PairOutcome.REFUSED, why, verdict=outcome.verdict)


def _one_of_several(target: Wanted) -> str | None:
    """The launch that its draft has only because nothing launches it, as in its file."""
    text = own_files.read(target.form).decode() if store.exists(target.form) else ""
    match = re.search(r"guess: nothing launches it; (<<<.*>>>) is what", text)
    return match[1] if match else None


def _passes_share(pair: Candidate) -> bool:
    """Whether a kernel is passed a share of a size, as one with `float4` parameters is passed `n / 4`."""
    steps = (launch for side in SIDES for launch in launches_of(getattr(pair, side).plan))
    return any(isinstance(arg, ValueArg) and "/" in str(arg.value) for launch in steps for arg in launch.args)


def _pairs(workspace: Workspace) -> Iterator[tuple[Path, Candidate]]:
    """The own pairs, which a failed run leaves as they are."""
    for path in store.find(workspace.pairs / SUITE, "pair.json"):
        with contextlib.suppress(InputError):  # damaged ones are named by what reads them
            yield path.parent, store.read_candidate(path.parent)


def _compare_parameters(slow: Wanted, fast: Wanted, note: Note) -> InputError | None:
    """Say which parameters only one side has; the error that this is if the sides do not agree.

    Raises:
        InputError: no side's parameters include the other's, or a buffer has two types of reals.
    """
    lost: list[InputError] = []
    for target, opposite in ((fast, slow), (slow, fast)):
        own, other = target.own, opposite.own
        params, others = _typed_params(target), _typed_params(opposite)
        places = match(others, params)
        if isinstance(places, str):
            hint = (
                "give both kernels the same parameters: the same names, or the same types in the same order"
            )
            lost.append(InputError(f"{places} of {other.name}", where=own.name, hint=hint))
            continue
        for param, counterpart in zip(params, (others[place] for place in places), strict=True):
            if (real := _real(param)) and (theirs := _real(counterpart)) and real != theirs:
                what = f"{param.name} is {param.type} in {own.name}, {counterpart.type} in {other.name}"
                raise InputError(what, hint="a pair has one problem: give both kernels the same types")
    if len(lost) == len(SIDES):
        raise lost[0]
    for error in lost:
        note(f"{error.where}: {error.what}")
    return lost[0] if lost else None


def _typed_params(target: Wanted) -> tuple[Param, ...]:
    """The parameters; those of a template that is launched in one way with its types."""
    kernel = target.own.half.kernel
    if target.launch is not None:
        kernel = launches.written(target.launch, target.own, target.option)
    if len(kernel.instantiations) != 1:
        return kernel.params
    passed = kernel.instantiations[0].partition("<")[2].rpartition(">")[0]
    arguments = (part.decode().strip() for part in split_arguments(passed.encode()))
    names = dict(zip(target.own.template, arguments, strict=False))
    return tuple(
        replace(param, type=re.sub(r"\w+", lambda word: names.get(word[0], word[0]), param.type))
        for param in kernel.params
    )


def _real(param: Param) -> str | None:
    """The dtype of a pointer to single real numbers."""
    element = types.element(param.type, {}) if param.pointer else None
    return element.dtype if element and element.lanes == 1 and element.dtype in types.FLOATS else None


def _with_launch(target: Wanted) -> PairKernel:
    """The kernel; a launch that was given or guessed for it is kept, whatever launches the other one."""
    return replace(target.own.half, own_launch=target.has_launch_of_its_own)


def _candidate(config: PairConfig, slow: Own, fast: Own) -> tuple[Path, Candidate]:
    """The folder and the pair without a problem.

    Raises:
        InputError: the name cannot be a folder's, or is that of other kernels.
    """
    kernels = slow.half.kernel, fast.half.kernel
    slow_name, fast_name = (kernel.name for kernel in kernels)
    if slow_name == fast_name:
        slow_name, fast_name = slow.path.stem, fast.path.stem
    name = config.name or safe_part(f"{slow_name}-{fast_name}")
    if name != safe_part(name) or not name:
        what, hint = f"not a name for a folder: {name!r}", "letters, digits, - and _"
        raise OptionError(what, where="--name", hint=hint)
    folder = Workspace(config.workspace).pairs / SUITE / name
    ids = tuple(kernel.id for kernel in kernels)
    held = store.read_candidate(folder).origin.kernels if store.exists(folder / "pair.json") else ids
    if held != ids:
        what = f"is a pair of other kernels: {', '.join(held)}"
        raise InputError(what, where=str(folder), hint="choose another with --name")
    source, plain = kernels[0].source, pair_of(slow, fast, name)
    return folder, replace(
        plain,
        family=kernels[0].family or name,
        domain=kernels[0].domain or UNKNOWN_DOMAIN,
        license=joint_license(kernels),
        origin=Origin("natural", SUITE, source.url, source.revision, ids),
        description=f"{slow.name} as the slow side, {fast.name} as the fast one.",
    )


def pair_of(slow: Own, fast: Own, name: str) -> Candidate:
    """Two kernels as a pair without a problem, of which only the code is known."""
    return Candidate(
        id=f"{SUITE}/{name}",
        family=name,
        domain=UNKNOWN_DOMAIN,
        license=None,
        origin=Origin("natural", SUITE),
        techniques=tuple(sorted({*fast.half.kernel.techniques} - {*slow.half.kernel.techniques})),
        description="",
        problem=None,
        slow=Side(slow.half.code, ()),
        fast=Side(fast.half.code, ()),
    )


def _failure(outcome: PairResult, wanted: tuple[Wanted, Wanted], unmatched: InputError | None) -> InputError:
    """The error that says why the two are no pair, with what to change."""
    both = ", ".join(target.own.name for target in wanted)
    verdict = outcome.verdict
    if verdict is None:
        return unmatched or InputError(outcome.why, where=both)
    at_fault = wanted[SIDES.index(verdict.side)] if verdict.side else None
    if at_fault is not None and verdict.outcome is Outcome.COMPILE_ERROR:
        return not_compiled(at_fault, verdict)
    disagree = verdict.outcome is Outcome.MISMATCH and not _FAULT.search(verdict.detail)
    if disagree and unmatched is not None:
        return unmatched
    why, where = outcome.why.removeprefix(f"{Outcome.MISMATCH}: "), at_fault.place if at_fault else both
    if verdict.outcome is Outcome.MISMATCH and unmatched is not None:
        return InputError(f"{unmatched.what}; without it, {why}", where=unmatched.where, hint=unmatched.hint)
    if disagree:
        return InputError(f"the sides do not agree: {why}", where=where, hint=_hint_to_agree(outcome, wanted))
    if at_fault is not None and "dynamic shared memory" in verdict.detail:
        third = f"{at_fault.option} '<<<64, 256, 256 * sizeof(float)>>>'"
        hint = f"give its bytes as the launch's third number, as in {third}"
    else:
        hint = _hint_to_correct(outcome, wanted, at_fault)
    return InputError(why, where=where, hint=hint)


def _hint_to_agree(outcome: PairResult, wanted: tuple[Wanted, Wanted]) -> str:
    alone = next((target for target in wanted if launchless(target)), None)
    if alone is None:
        return f"correct {_given(wanted)}the code, or the problem or launch in {_forms(outcome.why, wanted)}"
    return f"nothing launches {alone.kernel.name}: say how with {alone.option} {launches.FORM}"


def _hint_to_correct(outcome: PairResult, wanted: tuple[Wanted, Wanted], at_fault: Wanted | None) -> str:
    hint = f"correct {_given(wanted)}the code, or the problem in {_forms(outcome.why, wanted)}"
    alone = next((target for target in wanted if launchless(target)), None)
    if alone is not None and alone is at_fault:
        how = f"say how with {alone.option} {launches.FORM}"
        return f"{hint}; nothing launches {alone.kernel.name}: {how}"
    if at_fault and not (at_fault.launch or at_fault.own.half.kernel.launch_sites):
        hint += f", or, since its launch is guessed, give it: {at_fault.option} {launches.FORM}"
    return hint


def _given(wanted: Sequence[Wanted]) -> str:
    return "".join(target.given_launch for target in wanted)


def _forms(why: str, wanted: Sequence[Wanted]) -> str:
    """The draft of the kernel whose problem was tried: its launch is not named, unless both have one name."""
    launched = {name.rpartition("::")[2] for name in re.findall(r"([\w:]+)<<<", why)}
    owners = [target for target in wanted if target.own.half.kernel.name not in launched] or wanted
    return " or ".join(str(target.form) for target in owners if store.exists(target.form))
