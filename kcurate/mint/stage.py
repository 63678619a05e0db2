"""The stage: graphs are composed, admitted in worker processes, and written as pairs of a workspace.

`minted.jsonl` has a line for every graph that was tried. A run continues after the last line, so it can be
killed at any moment; composing is deterministic. Not covered: answers.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from kcurate.core import progress, store
from kcurate.core.cluster import workers
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, ordered, recorded
from kcurate.core.worker_pool import Failure
from kcurate.core.workspace import Workspace
from kcurate.errors import OptionError
from kcurate.mint.admission import Admission, Minted, Minting, admit
from kcurate.mint.composer import TYPES, Composer
from kcurate.mint.graph import OPERATORS, Kind
from kcurate.mint.settings import MintConfig
from kcurate.records import Summary
from kcurate.verdicts.keys import verdict_key

STAGE = "mint"
LINES = "minted.jsonl"
# Far beyond what a graph takes: what is admitted must not depend on how busy the machine is.
TIMEOUT_S = 1800.0
# A loaded side is never unloaded, so a worker grows by about a megabyte with each graph.
ADMITTED_BY_A_WORKER = 200
FAILED = "failed"


def run(config: MintConfig, *, note: Note = silent, written: set[str] | None = None) -> Summary:
    """Mint problems until `count` of this seed, kinds and types are admitted.

    `written` receives the verdict keys of the pairs that this run makes.

    Raises:
        OptionError: an unknown kind, operator or type. InputError: no more distinct graphs.
    """
    operators, types = chosen_operators(config.kinds), chosen_types(config.types)
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        composer = Composer(config.seed, operators, types)
        mintings = (Minting(graph, config.seed, at) for at, graph in enumerate(composer.graphs()))
        record.begin(config)
        book = _Book(workspace, _setting(config, operators, types), set() if written is None else written)
        with (
            workers(
                config.jobs, ("kcurate.mint.admission",), ray=config.ray, serves=ADMITTED_BY_A_WORKER
            ) as pool,
            progress.bar(STAGE, config.count, "problem") as bar,
        ):
            while missing := config.count - book.admitted:
                wave = list(itertools.islice(mintings, missing))
                open_ = [minting for minting in wave if not book.knows(minting)]
                for at, minted in pool.run(admit, open_, timeout_s=TIMEOUT_S, isolate=True):
                    book.add(open_[at], minted)
                bar.update(book.admitted - bar.n)
        book.report(record)
        return record.finish({"problems": ordered_counts(book.counts)})


def ordered_counts(counts: Counter[str]) -> dict[str, int]:
    """Counts of outcomes in the order of `Admission`, failed workers last."""
    return {**ordered(counts, Admission), **({FAILED: counts[FAILED]} if counts[FAILED] else {})}


class _Book:
    """The lines of `minted.jsonl` for one setting, and the outcome of each graph of this run by number."""

    def __init__(self, workspace: Workspace, setting: str, written: set[str]) -> None:
        self.workspace, self.setting, self.written = workspace, setting, written
        self.path = workspace.root / LINES
        self.counts = Counter[str]()
        self.refused: list[tuple[str, str, str]] = []
        self._lines = dict(_read(self.path, setting))

    @property
    def admitted(self) -> int:
        """How many problems this run has so far, those of earlier runs included."""
        return self.counts[Admission.ADMITTED]

    def knows(self, minting: Minting) -> bool:
        """Whether an earlier run settled this graph; counts it."""
        line = self._lines.get(minting.number)
        if line is None or line["key"] != minting.graph.key:
            return False
        folder = self.workspace.pairs / "minted" / minting.graph.key
        if line["outcome"] == Admission.ADMITTED and not store.exists(folder / "plain" / "pair.json"):
            return False
        self._count(minting, str(line["outcome"]), str(line["why"]))
        return True

    def add(self, minting: Minting, minted: Minted | Failure) -> None:
        """Write the result of a graph: its pair, then its line."""
        failed = isinstance(minted, Failure)
        outcome, why = (
            (FAILED, minted.detail) if isinstance(minted, Failure) else (minted.outcome, minted.why)
        )
        for candidate in () if isinstance(minted, Failure) else minted.candidates:
            store.write_candidate(self.workspace.pairs / candidate.id, candidate)
            self.written.add(verdict_key(candidate))
        line = {
            "setting": self.setting,
            "number": minting.number,
            "key": minting.graph.key,
            "outcome": str(outcome),
            "why": why,
            "dtype": minting.graph.dtype,
            "operators": [node.operator for node in minting.graph.nodes],
            "cpu_s": None if failed else round(minted.cpu_s, 2),  # type: ignore[union-attr]
        }
        store.append_line(self.path, json.dumps(line), durable=False)
        self._count(minting, str(outcome), why)

    def _count(self, minting: Minting, outcome: str, why: str) -> None:
        self.counts[outcome] += 1
        if outcome != Admission.ADMITTED:
            self.refused.append((minting.graph.key, outcome, why))

    def report(self, record: Run) -> None:
        """The graphs that were not admitted, as items of the run."""
        for key, outcome, why in self.refused:
            record.item("problems", f"minted/{key}", outcome, why, passed=False)


def _read(path: Path, setting: str) -> Iterator[tuple[int, dict[str, object]]]:
    if not path.exists():
        return
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the end of a killed run
        if line["setting"] == setting:
            yield line["number"], line


def _setting(config: MintConfig, operators: tuple[str, ...], types: tuple[str, ...]) -> str:
    return f"{config.seed} {store.content_id(*operators, *types)}"


def chosen_operators(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The operators of some kinds and names, in the table's order; all without any.

    Raises:
        OptionError: neither a kind nor an operator.
    """
    for name in kinds:
        if name not in OPERATORS and name not in get_args(Kind):
            raise OptionError(
                "neither a kind nor an operator",
                where=f"--kinds {name}",
                hint=f"one of {', '.join(get_args(Kind))}",
            )
    return tuple(
        operator.name
        for operator in OPERATORS.values()
        if not kinds or operator.kind in kinds or operator.name in kinds
    )


def chosen_types(types: tuple[str, ...]) -> tuple[str, ...]:
    """The types of problems; all without any.

    Raises:
        OptionError: not a type of problems.
    """
    for name in types:
        if name not in TYPES:
            raise OptionError(
                "not a type of problems", where=f"--types {name}", hint=f"one of {', '.join(TYPES)}"
            )
    return tuple(name for name in TYPES if not types or name in types)
