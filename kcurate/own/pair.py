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
from kcurate.own.kernels import UserKernel, find_kernels
from kcurate.own.problems import Ask, KernelRequest, find_problem, launchless, not_compiled
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
        requests = (
            KernelRequest(slow, config.slow_launch, "--slow-launch"),
            KernelRequest(fast, config.fast_launch, "--fast-launch"),
        )
        unmatched = _compare_parameters(*requests, record.note)
        folder, pair = _candidate(config, slow, fast)
        record.begin(config)
        command = record.command("pair", config.slow, config.fast, *flag_words(config))
        find_problem(requests, config.workspace, ask=ask, command=command, note=record.note)
        _note_guesses(requests, record.note)
        guessed = [request for request in requests if request.drafted and request.drafted.guessed]
        outcome = _judged(pair, requests, fast_guessed=requests[1] in guessed)
        form = next((request.form for request in requests if store.exists(request.form)), None)
        record.item(
            "pairs", pair.id, outcome.outcome, outcome.why, passed=outcome.pair is not None, file=form
        )
        summary = record.finish({"pairs": {outcome.outcome.value: 1}})
        if outcome.pair is None:
            for request in requests:
                request.forget_launch()
            raise _failure(outcome, requests, unmatched)
        if outcome.why:
            record.note(outcome.why)
        names = ", ".join(request.user_kernel.kernel.name for request in guessed)
        marked = outcome.pair.description + (f" Launches guessed: {names}." if guessed else "")
        store.write_candidate(folder, replace(outcome.pair, description=marked))
        following = record.command("validate", folder)
        record.note(f"{folder}: both sides agree on the emulator; next: {following}")
        if outcome.pair.license is None:
            record.note(f"{pair.id} has no licence, so kcurate build leaves it out: add --licence SPDX")
        return summary


def _check_pairing(slow: UserKernel, fast: UserKernel, licence: str | None) -> None:
    """Whether the two may be a pair at all.

    Raises:
        InputError: they are one code, or a file's own licence refuses the one that was given.
    """
    if slow.code == fast.code:
        raise InputError("both sides are the same code", where=f"{slow.name}, {fast.name}")
    for user_kernel in (slow, fast):
        if licence and user_kernel.kernel.rights and user_kernel.kernel.rights.refused:
            raise InputError(
                user_kernel.kernel.rights.refused, where=user_kernel.name, hint="correct --licence"
            )


def _note_guesses(requests: tuple[KernelRequest, KernelRequest], note: Note) -> None:
    """Note each side that nothing launches, with the launch that is tried."""
    for request, other in zip(requests, reversed(requests), strict=True):
        if launchless(request) and not request.known:
            how = f"nothing launches it, so it is launched as {other.kernel.name}"
            note(f"{request.user_kernel.name}: {how} (else: {request.option} LAUNCH)")
        elif not request.launch and (guess := _one_of_several(request)):
            how = f"nothing launches it, and its code leaves several launches; {guess} is tried"
            note(f"{request.user_kernel.name}: {how} (else: {request.option} LAUNCH)")


def _judged(
    pair: Candidate, requests: tuple[KernelRequest, KernelRequest], *, fast_guessed: bool
) -> PairResult:
    """The result of both sides on the emulator; refused if a narrowed problem may be due to a guessed
    launch."""
    judging = progress.bar("judge both sides on the emulator")
    with contextlib.closing(AdmittingJudge()) as judge, judging:
        outcome = give_problem(pair, _with_launch(requests[0]), _with_launch(requests[1]), judge)
    if not (outcome.pair and outcome.verdict and fast_guessed) or _passes_share(outcome.pair):
        return outcome
    # A guessed launch does not show for which sizes the kernel is meant.
    condition = f"if it is meant for other sizes only, give its launch: {requests[1].option}"
    why = f"{outcome.verdict.outcome}: {outcome.verdict.detail} ({condition})"
    return PairResult(PairOutcome.REFUSED, why, verdict=outcome.verdict)


def _one_of_several(request: KernelRequest) -> str | None:
    """The guessed launch in its draft, of several possible ones; None if the draft has none."""
    text = own_files.read(request.form).decode() if store.exists(request.form) else ""
    match = re.search(r"guess: nothing launches it; (<<<.*>>>) is what", text)
    return match[1] if match else None


def _passes_share(pair: Candidate) -> bool:
    """Whether a kernel is passed a size divided by a number, as one with `float4` parameters is passed `n /
    4`."""
    steps = (launch for side in SIDES for launch in launches_of(getattr(pair, side).plan))
    return any(isinstance(arg, ValueArg) and "/" in str(arg.value) for launch in steps for arg in launch.args)


def _pairs(workspace: Workspace) -> Iterator[tuple[Path, Candidate]]:
    """The pairs that `kcurate pair` wrote before; a failed run leaves them as they are."""
    for path in store.find(workspace.pairs / SUITE, "pair.json"):
        with contextlib.suppress(InputError):  # damaged ones are named by what reads them
            yield path.parent, store.read_candidate(path.parent)


def _compare_parameters(slow: KernelRequest, fast: KernelRequest, note: Note) -> InputError | None:
    """Note which parameters only one side has; returns the error to raise if the sides then disagree.

    Raises:
        InputError: no side's parameters include the other's, or a buffer has two types of reals.
    """
    errors: list[InputError] = []
    for request, opposite in ((fast, slow), (slow, fast)):
        user_kernel, other = request.user_kernel, opposite.user_kernel
        params, others = _typed_params(request), _typed_params(opposite)
        matched = match(others, params)
        if isinstance(matched, str):
            hint = (
                "give both kernels the same parameters: the same names, or the same types in the same order"
            )
            errors.append(InputError(f"{matched} of {other.name}", where=user_kernel.name, hint=hint))
            continue
        for param, counterpart in zip(params, (others[place] for place in matched), strict=True):
            if (real := _real(param)) and (other_real := _real(counterpart)) and real != other_real:
                what = (
                    f"{param.name} is {param.type} in {user_kernel.name}, {counterpart.type} in {other.name}"
                )
                raise InputError(what, hint="a pair has one problem: give both kernels the same types")
    if len(errors) == len(SIDES):
        raise errors[0]
    for error in errors:
        note(f"{error.where}: {error.what}")
    return errors[0] if errors else None


def _typed_params(request: KernelRequest) -> tuple[Param, ...]:
    """The kernel's parameters; of a template with one instantiation, with its types filled in."""
    kernel = request.user_kernel.kernel
    if request.launch is not None:
        kernel = launches.written(request.launch, request.user_kernel, request.option)
    if len(kernel.instantiations) != 1:
        return kernel.params
    template_args = kernel.instantiations[0].partition("<")[2].rpartition(">")[0]
    arguments = (part.decode().strip() for part in split_arguments(template_args.encode()))
    names = dict(zip(request.user_kernel.template, arguments, strict=False))
    return tuple(
        replace(param, type=re.sub(r"\w+", lambda word: names.get(word[0], word[0]), param.type))
        for param in kernel.params
    )


def _real(param: Param) -> str | None:
    """The dtype of a pointer to single real numbers."""
    element = types.element(param.type, {}) if param.pointer else None
    return element.dtype if element and element.lanes == 1 and element.dtype in types.FLOATS else None


def _with_launch(request: KernelRequest) -> PairKernel:
    """The kernel; a launch that was given or guessed for it is kept."""
    return replace(request.user_kernel.extracted, own_launch=request.has_own_launch)


def _candidate(config: PairConfig, slow: UserKernel, fast: UserKernel) -> tuple[Path, Candidate]:
    """The folder and the pair without a problem.

    Raises:
        InputError: the name cannot be a folder's, or is that of other kernels.
    """
    kernels = slow.kernel, fast.kernel
    slow_name, fast_name = (kernel.name for kernel in kernels)
    if slow_name == fast_name:
        slow_name, fast_name = slow.path.stem, fast.path.stem
    name = config.name or safe_part(f"{slow_name}-{fast_name}")
    if name != safe_part(name) or not name:
        what, hint = f"not a name for a folder: {name!r}", "letters, digits, - and _"
        raise OptionError(what, where="--name", hint=hint)
    folder = Workspace(config.workspace).pairs / SUITE / name
    ids = tuple(kernel.id for kernel in kernels)
    present = store.read_candidate(folder).origin.kernels if store.exists(folder / "pair.json") else ids
    if present != ids:
        what = f"is a pair of other kernels: {', '.join(present)}"
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


def pair_of(slow: UserKernel, fast: UserKernel, name: str) -> Candidate:
    """Two kernels as a pair without a problem or licence."""
    return Candidate(
        id=f"{SUITE}/{name}",
        family=name,
        domain=UNKNOWN_DOMAIN,
        license=None,
        origin=Origin("natural", SUITE),
        techniques=tuple(sorted({*fast.kernel.techniques} - {*slow.kernel.techniques})),
        description="",
        problem=None,
        slow=Side(slow.code, ()),
        fast=Side(fast.code, ()),
    )


def _failure(
    outcome: PairResult, requests: tuple[KernelRequest, KernelRequest], unmatched: InputError | None
) -> InputError:
    """The error to raise if the two kernels are no pair, with a hint on what to change."""
    both_names = ", ".join(request.user_kernel.name for request in requests)
    verdict = outcome.verdict
    if verdict is None:
        return unmatched or InputError(outcome.why, where=both_names)
    at_fault = requests[SIDES.index(verdict.side)] if verdict.side else None
    if at_fault is not None and verdict.outcome is Outcome.COMPILE_ERROR:
        return not_compiled(at_fault, verdict)
    disagree = verdict.outcome is Outcome.MISMATCH and not _FAULT.search(verdict.detail)
    if disagree and unmatched is not None:
        return unmatched
    why, where = outcome.why.removeprefix(f"{Outcome.MISMATCH}: "), at_fault.place if at_fault else both_names
    if verdict.outcome is Outcome.MISMATCH and unmatched is not None:
        return InputError(f"{unmatched.what}; without it, {why}", where=unmatched.where, hint=unmatched.hint)
    if disagree:
        return InputError(
            f"the sides do not agree: {why}", where=where, hint=_hint_to_agree(outcome, requests)
        )
    if at_fault is not None and "dynamic shared memory" in verdict.detail:
        third = f"{at_fault.option} '<<<64, 256, 256 * sizeof(float)>>>'"
        hint = f"give its bytes as the launch's third number, as in {third}"
    else:
        hint = _hint_to_correct(outcome, requests, at_fault)
    return InputError(why, where=where, hint=hint)


def _hint_to_agree(outcome: PairResult, requests: tuple[KernelRequest, KernelRequest]) -> str:
    alone = next((request for request in requests if launchless(request)), None)
    if alone is None:
        changeable = f"{_given_launches(requests)}the code, or the problem or launch"
        return f"correct {changeable} in {_forms(outcome.why, requests)}"
    return f"nothing launches {alone.kernel.name}: say how with {alone.option} {launches.FORM}"


def _hint_to_correct(
    outcome: PairResult, requests: tuple[KernelRequest, KernelRequest], at_fault: KernelRequest | None
) -> str:
    hint = f"correct {_given_launches(requests)}the code, or the problem in {_forms(outcome.why, requests)}"
    alone = next((request for request in requests if launchless(request)), None)
    if alone is not None and alone is at_fault:
        how = f"say how with {alone.option} {launches.FORM}"
        return f"{hint}; nothing launches {alone.kernel.name}: {how}"
    if at_fault and not (at_fault.launch or at_fault.user_kernel.kernel.launch_sites):
        hint += f", or, since its launch is guessed, give it: {at_fault.option} {launches.FORM}"
    return hint


def _given_launches(requests: Sequence[KernelRequest]) -> str:
    return "".join(request.given_launch for request in requests)


def _forms(why: str, requests: Sequence[KernelRequest]) -> str:
    """The draft files of the kernels whose problem was tried: those that `why` does not name as launched."""
    launched = {name.rpartition("::")[2] for name in re.findall(r"([\w:]+)<<<", why)}
    owners = [request for request in requests if request.user_kernel.kernel.name not in launched] or requests
    return " or ".join(str(request.form) for request in owners if store.exists(request.form))
