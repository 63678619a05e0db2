"""The stage: walk, parse in workers, compile in workers, match pairs, count everything.

A rerun completes an interrupted run: parsing is repeated, compiled kernels are kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.core import progress, time_limits
from kcurate.core.json_text import shown
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import UnitReport
from kcurate.errors import InputError, OptionError
from kcurate.extract import compiling
from kcurate.extract.candidates import write_candidates
from kcurate.extract.flags import FlagFinder, check_include, find_commands, given_flags
from kcurate.extract.merge import TreeKernels, merge
from kcurate.extract.pairs import Match, SourceFile, match_files
from kcurate.extract.reporting import (
    UTF_16_HINT,
    add_results,
    count_items,
    file_outcomes,
    marks_line,
    write_reports,
)
from kcurate.extract.rights import with_rights
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.sources import TreeFiles, choose_units, find_files
from kcurate.extract.triton_files import with_triton
from kcurate.extract.units import UnitTask, read_unit
from kcurate.extract.versions import match_versions
from kcurate.extract.walk import FileOutcome, Filter
from kcurate.forms import readers
from kcurate.records import CompiledKernel, Kernel, Summary

PRELOAD = tuple(
    f"kcurate.extract.{name}" for name in ("units", "compiling", "sources", "triton_files", "rights")
)
WRITTEN_TOGETHER = 16
# So many files without kernels are named on stderr.
MAX_LINES = 20


def run(config: ExtractConfig, *, note: Note = silent) -> Summary:
    """Extract every kernel and natural pair; `note` receives messages for the user.

    Raises: as `extract`, or as `history.run`.
    """
    if config.history:
        from kcurate.extract import history

        return history.run(config, note=note)
    if config.since is not None:
        raise OptionError("needs --history", where="--since", hint="kcurate extract REPOSITORY --history")
    return extract(config, note=note)[0]


def extract(config: ExtractConfig, *, note: Note = silent) -> tuple[Summary, list[TreeKernels]]:
    """The summary, and the kernels of every tree.

    Raises:
        InputError: a path cannot be read, the suite is unknown, or there is no kernel anywhere.
        MissingDependencyError: `compile` is True and NVRTC is not installed.
    """
    with recorded("extract", config.workspace, note=note) as record:
        compiler = compiling.find_compiler(config.compile, record.note)
        for line in readers.refused():
            record.note(line)
        with Pool(config.jobs, PRELOAD) as pool:
            chosen = Filter(config.include, config.exclude)
            trees = find_files(config.paths, config.suite, chosen, config.root)
            for files in trees:
                if (known := files.tree.another_revision) is not None:
                    have = f"{files.tree.suite}: {files.tree.root} is at {files.tree.revision}"
                    record.note(f"{have}; its problems and verdicts are of {known}: run git checkout {known}")
            finders = zip(trees, _finders(config, trees, record.note), strict=True)
            for files, finder in progress.each(finders, "scan", len(trees), "tree"):
                choose_units(files, pool, finder)
            extracted = [
                with_rights(with_triton(files, _parse(files, pool), pool), config.licence, pool)
                for files in trees
            ]
            _require_kernels(config, trees, extracted)
            workspace = Workspace(config.workspace)
            record.begin(config, paths=[path.resolve() for path in config.paths])
            finished = [_finish(kernels, workspace.kernels, compiler, pool) for kernels in extracted]
        matches = [_pairs(tree, workspace.pairs, record.note) if config.pairs else [] for tree in finished]
        outcomes = [
            file_outcomes(files, tree, config.min_device_fraction)
            for files, tree in zip(trees, finished, strict=True)
        ]
        listed = record.folder / "files.jsonl"
        write_reports(record, finished, outcomes, matches)
        add_results(record, finished, outcomes, matches)
        dropped = sum(list(each.values()).count(FileOutcome.BELOW_DEVICE_FRACTION) for each in outcomes)
        if dropped:
            record.note(f"{dropped} files are below the device fraction; their kernels are kept: {listed}")
        _note_reasons(finished, record.note, listed)
        _note_readers(trees, record.note)
        _note_refused(finished, record.note)
        if config.pairs and (accounted := marks_line(finished)) is not None:  # not for kernels that are named
            record.note(accounted)
        unread = sum(sum(tree.unread.values()) for tree in finished)
        if unread:
            record.note(f"{unread} kernels were not extracted (macros define or hide them): {listed}")
        unevaluated = sum(len(tree.unevaluated) for tree in finished)
        if unevaluated:
            left = f"{unevaluated} conditions could not be evaluated, their branches are left out"
            record.note(f"{left}: {record.folder / 'conditions.jsonl'}")
        return record.finish(count_items(finished, outcomes, matches)), finished


def _finders(config: ExtractConfig, trees: Sequence[TreeFiles], note: Note) -> list[FlagFinder]:
    """What knows the compile flags of each tree's files."""
    check_include(config.include_dirs, [files.tree.root for files in trees])
    finders = []
    for root in (files.tree.root for files in trees):
        flags = given_flags(config.define, config.include_dirs, root)
        finders.append(FlagFinder(root, flags, find_commands(root, config.compile_commands, note)))
    return finders


def _note_reasons(trees: Sequence[TreeKernels], note: Note, listed: Path) -> None:
    """Say why files that contain `__global__` gave nothing, a line each, unless nothing is lost."""
    lines = [
        reason.line(shown(path))
        for tree in trees
        for path, reason in sorted(tree.reasons.items())
        if reason.hint is not None
    ]
    for line in lines[:MAX_LINES]:
        note(line)
    if lines[MAX_LINES:]:
        note(f"{len(lines) - MAX_LINES} more files gave no kernel: {listed}")


def _note_refused(trees: Sequence[TreeKernels], note: Note) -> None:
    """Say what kernels are refused for, a line each reason."""
    whys = Counter(
        kernel.rights.refused
        for tree in trees
        for kernel in tree.kernels
        if kernel.rights and kernel.rights.refused
    )
    for why, count in whys.most_common(MAX_LINES):
        note(f"{count} kernel{'s' if count > 1 else ''} refused: {why}")
    if len(whys) > MAX_LINES:
        note(f"kernels refused for {len(whys) - MAX_LINES} more reasons")


def _note_readers(trees: Sequence[TreeFiles], note: Note) -> None:
    """Say of each file on which a reader failed why it did."""
    for files in trees:
        for file in files.found:
            if file.outcome is FileOutcome.READER_FAILED:
                path = files.tree.root / file.path
                try:
                    deque(readers.parts(path.name, readers.text_of(path, path.read_bytes())), maxlen=0)
                except (readers.ReaderFailed, OSError) as error:
                    note(f"{shown(file.path)}: {error}")


def _parse(files: TreeFiles, pool: Pool) -> TreeKernels:
    """Parse every unit; a file whose best unit skips its kernels is parsed by itself."""
    results: dict[str, UnitReport] = {}
    failed: dict[str, str] = {}
    pending = {path: units[0] for path, units in files.roots.items()}
    launchers = list(files.launchers)
    while pending or launchers:
        roots = sorted({*pending.values(), *launchers} - results.keys() - failed.keys())
        launchers = []
        folders = files.tree.manifest.layout.include
        tasks = [
            UnitTask(files.tree.root, folders, root, files.flags[root], files.located[root]) for root in roots
        ]
        answers = pool.run(
            read_unit, tasks, timeout_s=time_limits.STAGE_TASK_S, cpu_s=time_limits.READ_UNIT_S
        )
        for index, result in progress.each(answers, f"{files.tree.suite}: parse", len(tasks), "file"):
            if isinstance(result, Failure):
                failed[roots[index]] = f"{result.kind}: {result.detail}"
            else:
                results[roots[index]] = result
        pending = {
            path: path
            for path, root in pending.items()
            if path != root and not (root in results and results[root].kernels_of(path))
        }
    return merge(files, results, failed)


def _require_kernels(
    config: ExtractConfig, trees: Sequence[TreeFiles], extracted: Sequence[TreeKernels]
) -> None:
    if any(tree.kernels for tree in extracted):
        return
    counts = Counter(
        outcome
        for files, tree in zip(trees, extracted, strict=True)
        for outcome in file_outcomes(files, tree, config.min_device_fraction).values()
    )
    seen = (
        ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "the folder is empty"
    )
    what, hint = "no CUDA kernel found", "give a tree with __global__ or @triton.jit functions"
    if counts[FileOutcome.UTF_16]:
        hint = f"{hint}; {UTF_16_HINT}"
    if any(tree.unread for tree in extracted):
        what = "no CUDA kernel could be extracted"
        hint = "kernels defined by macros are not parsed: write them out (docs/extraction.md)"
    elif why := [reason.line(shown(path)) for tree in extracted for path, reason in tree.reasons.items()]:
        what, hint = "no CUDA kernel could be extracted", "; ".join(sorted(why)[:3])
    raise InputError(f"{what} ({seen})", where=", ".join(str(path) for path in config.paths), hint=hint)


def _finish(tree: TreeKernels, folder: Path, compiler: str | None, pool: Pool) -> TreeKernels:
    """Compile and write every kernel."""
    tasks = [
        compiling.KernelTask(folder / kernel.id, kernel, tree.codes[kernel.id], compiler)
        for kernel in tree.kernels
    ]
    kernels = list(tree.kernels)
    # A compiler may crash on its input, so each kernel is a separate task; without one, tasks are batched.
    size = 1 if compiler is not None else WRITTEN_TOGETHER
    batches = [tasks[at : at + size] for at in range(0, len(tasks), size)]
    answers = pool.run(
        compiling.finish_kernels,
        batches,
        timeout_s=time_limits.STAGE_TASK_S,
        cpu_s=time_limits.COMPILE_EXTRACTED_S,
        isolate=compiler is not None,
    )
    for index, result in progress.each(answers, f"{tree.tree.suite}: compile", len(batches), "kernel"):
        if isinstance(result, Failure):
            log = f"the compiler {result.kind}: {result.detail}"
            broken = CompiledKernel(False, compiling.ARCHS[-1], compiler or "", log=log)
            result = [compiling.write_kernel(task, broken).compiled for task in batches[index]]
        for at, compiled in enumerate(result, index * size):
            kernels[at] = replace(tasks[at].kernel, compiled=compiled)
    return replace(tree, kernels=tuple(kernels))


def _pairs(tree: TreeKernels, folder: Path, note: Note) -> list[Match]:
    """Match the variants of a tree, or a kernel's versions, and write the pairs."""
    by_path: dict[str, list[Kernel]] = {}
    for kernel in tree.kernels:
        by_path.setdefault(kernel.span.path, []).append(kernel)
    files = []
    for path in tree.source_paths:
        place = tree.tree.locate(path)
        if place is not None and place.variant is not None:
            kernels = tuple(by_path.get(shown(path), ()))
            files.append(SourceFile(shown(path), place, kernels, tree.file_codes.get(path, b"")))
    matches = match_files(files, tree.tree.manifest.layout.pairs)
    if not tree.tree.facts:
        matches += match_versions(tree.kernels, tree.codes)
    write_candidates(folder, tree.tree, matches, note)
    return matches
