"""The stage: two kernels of the user's files become one candidate, with one problem for both.

Not covered: the verdict on the pair (`kcurate validate`), plans that launch several kernels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kcurate.core import progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.dataset.licences import spdx
from kcurate.draft.for_pairs.other_kernel import PairKernel
from kcurate.draft.for_pairs.shared_problem import Given, PairOutcome, give
from kcurate.draft.trying.completed_files import AdmittingJudge
from kcurate.errors import InputError, OptionError
from kcurate.extract.candidates import UNKNOWN_DOMAIN, joint_license
from kcurate.extract.naming import safe_part
from kcurate.own import launches
from kcurate.own.kernels import Own, find_kernels
from kcurate.own.problems import Ask, Wanted, find_problem, launchless
from kcurate.own.settings import PairConfig
from kcurate.records import Candidate, Origin, Side, Summary

SUITE = "own"


def run(config: PairConfig, *, ask: Ask | None = None, note: Note = silent) -> Summary:
    """Write `pairs/own/<name>/`, once both kernels solve one problem alike on the emulator.

    Raises:
        InputError: unusable files or options, no admitted problem for either kernel, parameters without a
            counterpart, or results that differ. Nothing is written to `pairs/` then.
    """
    licence = spdx(config.licence)
    launches.check_form(config.slow_launch, "--slow-launch")
    launches.check_form(config.fast_launch, "--fast-launch")
    with recorded("pair", config.workspace, note=note) as record:
        slow, fast = find_kernels(
            (config.slow, config.fast), config.workspace, note=record.note, licence=licence
        )
        if slow.half.code == fast.half.code:
            raise InputError("both sides are the same code", where=f"{slow.name}, {fast.name}")
        for own in (slow, fast):
            if licence and own.half.kernel.rights and own.half.kernel.rights.refused:
                raise InputError(own.half.kernel.rights.refused, where=own.name, hint="correct --licence")
        folder, pair = _candidate(config, slow, fast)
        record.begin(config)
        wanted = (
            Wanted(slow, config.slow_launch, "--slow-launch"),
            Wanted(fast, config.fast_launch, "--fast-launch"),
        )
        command = record.command("pair", config.slow, config.fast)
        find_problem(wanted, config.workspace, ask=ask, command=command, note=record.note)
        for target, other in zip(wanted, reversed(wanted), strict=True):
            if launchless(target) and not target.known:
                how = f"nothing launches it, so it is launched as {other.kernel.name}"
                record.note(f"{target.own.name}: {how} (else: {target.option} LAUNCH)")
        judge = AdmittingJudge()
        try:
            with progress.bar("judge both sides on the emulator"):
                outcome = give(pair, _with_launch(wanted[0]), _with_launch(wanted[1]), judge)
        finally:
            judge.close()
        form = next((target.form for target in wanted if store.exists(target.form)), None)
        record.item(
            "pairs", pair.id, outcome.outcome, outcome.why, passed=outcome.pair is not None, file=form
        )
        summary = record.finish({"pairs": {outcome.outcome.value: 1}})
        if outcome.pair is None:
            for target in wanted:
                target.forget_launch()
            raise _failure(outcome, wanted)
        store.write_candidate(folder, outcome.pair)
        following = record.command("validate", folder)
        record.note(f"{folder}: both sides agree on the emulator; next: {following}")
        return summary


def _with_launch(target: Wanted) -> PairKernel:
    """The kernel; a launch that was given or guessed for it is kept, whatever launches the other one."""
    half = target.own.half
    told = target.kernel.launch_sites != half.kernel.launch_sites
    return replace(half, own_launch=told)


def _candidate(config: PairConfig, slow: Own, fast: Own) -> tuple[Path, Candidate]:
    """The folder and the pair without a problem.

    Raises:
        InputError: the name cannot be a folder's, or is that of other kernels.
    """
    kernels = slow.half.kernel, fast.half.kernel
    name = config.name or safe_part(f"{kernels[0].name}-{kernels[1].name}")
    if name != safe_part(name) or not name:
        raise OptionError(
            f"not a name for a folder: {name!r}", where="--name", hint="letters, digits, - and _"
        )
    folder = Workspace(config.workspace).pairs / SUITE / name
    ids = tuple(kernel.id for kernel in kernels)
    if store.exists(folder / "pair.json") and store.read_candidate(folder).origin.kernels != ids:
        raise InputError("is a pair of other kernels", where=str(folder), hint="choose another with --name")
    source = kernels[0].source
    return folder, Candidate(
        id=f"{SUITE}/{name}",
        family=kernels[0].family or name,
        domain=kernels[0].domain or UNKNOWN_DOMAIN,
        license=joint_license(kernels),
        origin=Origin("natural", SUITE, source.url, source.revision, ids),
        techniques=tuple(sorted({*kernels[1].techniques} - {*kernels[0].techniques})),
        description=f"{slow.name} as the slow side, {fast.name} as the fast one.",
        problem=None,
        slow=Side(slow.half.code, ()),
        fast=Side(fast.half.code, ()),
    )


def _failure(outcome: Given, wanted: tuple[Wanted, Wanted]) -> InputError:
    where = ", ".join(target.own.name for target in wanted)
    if outcome.outcome is PairOutcome.NO_MATCH:
        hint = "give both kernels the same parameters: the same names, or the same types in the same order"
        return InputError(outcome.why, where=where, hint=hint)
    forms = " or ".join(str(target.form) for target in wanted if store.exists(target.form))
    hint = f"correct the code, or the problem or launch in {forms}"
    if alone := next((target for target in wanted if launchless(target)), None):
        hint = f"nothing launches {alone.kernel.name}: say how with {alone.option} {launches.FORM}"
    return InputError(f"the sides do not agree: {outcome.why}", where=where, hint=hint)
