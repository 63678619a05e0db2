"""The stage: walk, parse in workers, compile in workers, match pairs, count everything.

A rerun completes an interrupted run: parsing is repeated, compiled kernels are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.core import progress, time_limits
from kcurate.core.cluster import workers
from kcurate.core.grouping import grouped
from kcurate.core.json_text import shown
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import UnitReport
from kcurate.errors import InputError, OptionError
from kcurate.extract import compiling, second_reader
from kcurate.extract.candidates import write_candidates
from kcurate.extract.flags import FlagFinder, check_include, find_commands, given_flags
from kcurate.extract.merge import TreeKernels, merge
from kcurate.extract.pairs import Match, SourceFile, match_files
from kcurate.extract.reporting import UTF_16_HINT, KernelOutcome, Tally, part_report
from kcurate.extract.rights import Stated, with_rights
from kcurate.extract.second_reader import Clang
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.shards import SUFFIXES
from kcurate.extract.sources import TreeFiles, bundles, choose_units, find_files
from kcurate.extract.triton_files import with_triton
from kcurate.extract.units import read_unit, unit_task
from kcurate.extract.versions import match_versions
from kcurate.extract.walk import FileOutcome, Filter
from kcurate.forms import readers
from kcurate.records import CompiledKernel, Summary

PRELOAD = tuple(
    f"kcurate.extract.{name}" for name in ("units", "compiling", "sources", "triton_files", "rights")
)
WRITTEN_TOGETHER = 16


def run(config: ExtractConfig, *, note: Note = silent) -> Summary:
    """Extract every kernel and natural pair; `note` receives messages for the user.

    Raises: as `extract`, or as `history.run`.
    """
    if config.shards:
        from kcurate.extract import from_shards

        return from_shards.run(config, note=note)
    if not config.paths:
        raise OptionError("nothing to extract", where="PATH", hint="kcurate extract PATH, or --from SHARDS")
    if config.history:
        from kcurate.extract import history

        return history.run(config, note=note)
    if config.since is not None:
        raise OptionError("needs --history", where="--since", hint="kcurate extract REPOSITORY --history")
    return extract(config, note=note)


def extract(config: ExtractConfig, *, note: Note = silent, keep: list[TreeKernels] | None = None) -> Summary:
    """Extract every kernel and natural pair of the trees; their kernels are also appended to `keep`.

    Raises:
        InputError: a path cannot be read, the suite is unknown, or there is no kernel anywhere.
        MissingDependencyError: `compile` is True and NVRTC is not installed.
    """
    with recorded("extract", config.workspace, note=note) as record:
        compiler = compiling.find_compiler(config.compile, record.note)
        clang = second_reader.find(record.note)
        for line in readers.refused():
            record.note(line)
        tally = Tally(record)
        begun = False
        with workers(config.jobs, PRELOAD, ray=config.ray) as pool:
            chosen = Filter(config.include, config.exclude)
            trees = find_files(config.paths, config.suite, chosen, config.root)
            for files in trees:
                if (checked_revision := files.tree.another_revision) is not None:
                    have = f"{files.tree.suite}: {files.tree.root} is at {files.tree.revision}"
                    advice = f"run git checkout {checked_revision}"
                    record.note(f"{have}; its problems and verdicts are of {checked_revision}: {advice}")
            finders = _finders(config, trees, record.note)
            parts = [
                (part, finder)
                for files, finder in zip(trees, finders, strict=True)
                for part in bundles(files)
            ]
            for files, finder in progress.each(parts, "extract", len(parts), "part"):
                tree = read_part(files, finder, config.licence, pool, clang=clang)
                if tree.kernels and not begun:  # nothing is written if there is no kernel anywhere
                    record.begin(config, paths=[path.resolve() for path in config.paths])
                    tally.begin()
                    begun = True
                tree, matches = write_part(config, tree, compiler, pool, record.note)
                tally.add(part_report(files, tree, matches, config.min_device_fraction))
                if keep is not None:
                    keep.append(tree)
        if not begun:
            raise _no_kernel(config, tally)
        tally.tell(pairs=config.pairs)
        return record.finish(tally.nonzero())


def read_part(
    files: TreeFiles,
    finder: FlagFinder,
    licence: str | None,
    pool: Pool,
    stated: Mapping[str, Stated] | None = None,
    clang: Clang | None = None,
) -> TreeKernels:
    """The kernels of a part of a tree with their rights; `stated` as in `with_rights`."""
    choose_units(files, pool, finder)
    return with_rights(with_triton(files, _parse(files, pool, clang), pool), licence, pool, stated)


def write_part(
    config: ExtractConfig, tree: TreeKernels, compiler: str | None, pool: Pool, note: Note
) -> tuple[TreeKernels, list[Match]]:
    """Compile and write the kernels and pairs of a part; returns it with the results, and the file pairs."""
    workspace = Workspace(config.workspace)
    tree = _finish(tree, workspace.kernels, compiler, pool)
    return tree, _pairs(tree, workspace.pairs, note) if config.pairs else []


def _finders(config: ExtractConfig, trees: Sequence[TreeFiles], note: Note) -> list[FlagFinder]:
    """The flag finder of each tree."""
    check_include(config.include_dirs, [files.tree.root for files in trees])
    finders = []
    for root in (files.tree.root for files in trees):
        flags = given_flags(config.define, config.include_dirs, root)
        finders.append(FlagFinder(root, flags, find_commands(root, config.compile_commands, note)))
    return finders


def _parse(files: TreeFiles, pool: Pool, clang: Clang | None) -> TreeKernels:
    """Parse every unit; if a file has no kernels in its best unit, parse it again by itself."""
    results: dict[str, UnitReport] = {}
    failed: dict[str, str] = {}
    pending = {path: units[0] for path, units in files.roots.items()}
    launchers = list(files.launchers)
    while pending or launchers:
        roots = sorted({*pending.values(), *launchers} - results.keys() - failed.keys())
        launchers = []
        tasks = [unit_task(files, root, clang) for root in roots]
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


def _no_kernel(config: ExtractConfig, tally: Tally) -> InputError:
    counts = tally.counts.get("files", Counter())
    listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    problem, hint = "no CUDA kernel found", "give a tree with __global__ or @triton.jit functions"
    if rows := [str(path) for path in config.paths if path.name.endswith(SUFFIXES)]:
        hint = f"if its rows are files: kcurate extract --from {rows[0]}"
    if counts[FileOutcome.UTF_16]:
        hint = f"{hint}; {UTF_16_HINT}"
    if tally.counts.get("kernels", Counter())[KernelOutcome.UNREAD]:
        problem = "no CUDA kernel could be extracted"
        hint = "the macros that make its kernels cannot be expanded: write them out (docs/extraction.md)"
    elif tally.reasons:
        problem, hint = "no CUDA kernel could be extracted", "; ".join(tally.reasons)
    return InputError(
        f"{problem} ({listed or 'the folder is empty'})",
        where=", ".join(str(path) for path in config.paths),
        hint=hint,
    )


def _finish(tree: TreeKernels, folder: Path, compiler: str | None, pool: Pool) -> TreeKernels:
    """Compile and write every kernel."""
    tasks = [
        compiling.KernelTask(
            folder / kernel.id,
            kernel,
            tree.codes[kernel.id],
            compiler,
            tree.definitions,
            tree.reached.get(kernel.id),
        )
        for kernel in tree.kernels
    ]
    kernels, codes = list(tree.kernels), dict(tree.codes)
    # A compiler may crash on its input, so each kernel is a separate task; without one, tasks are batched.
    size = 1 if compiler is not None else WRITTEN_TOGETHER
    batches = [tasks[at : at + size] for at in range(0, len(tasks), size)]
    answers = pool.run(
        compiling.finish_kernels,
        batches,
        timeout_s=time_limits.STAGE_TASK_S,
        cpu_s=time_limits.COMPILE_EXTRACTED_S,
        isolate=compiler is not None and not pool.alone,
    )
    for index, result in progress.each(answers, f"{tree.tree.suite}: compile", len(batches), "kernel"):
        if isinstance(result, Failure):
            log = f"the compiler {result.kind}: {result.detail}"
            broken = CompiledKernel(False, compiling.ARCHS[-1], compiler or "", log=log)
            result = [(compiling.write_kernel(task, broken), task.code) for task in batches[index]]
        for at, (kernel, code) in enumerate(result, index * size):
            kernels[at], codes[kernel.id] = kernel, code
    return replace(tree, kernels=tuple(kernels), codes=codes)


def _pairs(tree: TreeKernels, folder: Path, note: Note) -> list[Match]:
    """Match the variants of a tree, or the versions of its kernels, and write the pairs."""
    by_path = grouped((kernel.span.path, kernel) for kernel in tree.kernels)
    files = []
    for path in tree.source_paths:
        place = tree.tree.locate(path)
        if place is not None and place.variant is not None:
            kernels = tuple(by_path[shown(path)])
            files.append(SourceFile(shown(path), place, kernels, tree.file_codes.get(path, b"")))
    matches = match_files(files, tree.tree.manifest.layout.pairs)
    if not tree.tree.facts:
        matches += match_versions(tree.kernels, tree.codes)
    write_candidates(folder, tree.tree, matches, note)
    return matches
