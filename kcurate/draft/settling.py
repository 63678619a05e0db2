"""Settles one kernel's draft: tried, written beside the kernel, completed by a model if there is one.

Not covered: which drafts a kernel has (`stage`), trying one (`admit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kcurate.core import store
from kcurate.draft import admit, form, reached, reading, reporting
from kcurate.draft.checking import RECORD_NAME, AdmittingJudge, faults
from kcurate.draft.counterpart import FORM_NAME
from kcurate.draft.explained import Trust
from kcurate.draft.proposing import reads_files
from kcurate.draft.sketch import Draft
from kcurate.records import Kernel, KnownProblem, Problem
from kcurate.suites.problems import tied

COMPLETED = "# Open places were filled in by a program; admitted."
# Launches of one kernel that are tried.
MAX_LAUNCHES = 3
BEYOND = "past the end of an allocation"
# Takes a draft's text and the kernel's code; returns the text with open places filled in, or None.
Complete = Callable[[str, str], str | None]


class Settled(NamedTuple):
    """A kernel's outcome, the reason if it has one, and a message."""

    outcome: str
    why: str
    line: str

    @property
    def admitted(self) -> bool:
        """Whether the problem may be used."""
        return self.outcome in ("admitted", reporting.SINGLE_SIZE)


@dataclass(frozen=True)
class Settling:
    """Where one kernel's draft goes, and who tries and completes it."""

    record: Path
    kernel: Kernel
    code: str
    judge: AdmittingJudge
    complete: Complete | None

    @property
    def path(self) -> Path:
        """The draft's file."""
        return self.record.with_name(FORM_NAME)

    def settle(self, made: Draft, more: Sequence[str] = ()) -> Settled:
        """Write a draft, and try it first if nothing is open; `more` are additional heading lines."""
        if made.reasons:
            self._write(made, [*_open_heading(made), *more])
            return Settled("open", made.reasons[0], f"open: {', '.join(made.reasons)}: {self.path}")
        result = admit.admit(made, self.code, self.judge, made.ladder)
        self._write(result.draft, [*result.heading(), *more])
        if result.admitted:
            store.write_json(self.record.parent / RECORD_NAME, result.draft.known)
            if result.draft.known.problem.single_size:
                return Settled(reporting.SINGLE_SIZE, "", "admitted at its one size")
            untested = f"; {result.untested}" if result.untested else ""
            return Settled("admitted", "", f"admitted at sizes {result.sizes}{untested}")
        outcome = str(result.verdict.outcome)
        return Settled("refused", outcome, f"{outcome}: {result.verdict.detail}")

    def settle_texts(self, texts: Sequence[Draft], more: Sequence[str] = ()) -> Settled:
        """Settle what the text alone gives: of several launches that differ, those that work, the strictest.

        If none does, the first counts, and whoever completes drafts is asked.
        """
        seen = [texts[0].known]
        settled, best = self._settle_text(texts[0], more), texts[0].known.problem
        for text in texts[1:]:
            if text.known in seen or text.reasons or settled.outcome == "open":
                continue
            if settled.admitted and not admit.stricter(text.known.problem, best):
                continue
            if len(seen) == MAX_LAUNCHES:
                break
            seen.append(text.known)
            before = self.path.read_bytes()
            found = self._settle_text(text, more)
            if found.admitted:
                settled, best = found, text.known.problem
            else:
                store.write_bytes(self.path, before)
        return settled if settled.admitted else self.completed() or settled

    def _settle_text(self, text: Draft, more: Sequence[str]) -> Settled:
        """Settle one launch's draft: extents that it leaves open are those that a run reaches.

        So are all extents of a kernel that goes beyond them.
        """
        found = self.settle(reached.measured(text, self.code, self.judge.reach), more)
        if found.outcome == "refused" and BEYOND in found.line:
            made = reached.measured(reached.reopened(text), self.code, self.judge.reach)
            before = self.path.read_bytes()
            again = found if made.reasons else self.settle(made, more)
            if not again.admitted and BEYOND in again.line:
                store.write_bytes(self.path, before)
            else:
                found = again
        return found

    def settle_recorded(self, recorded: Callable[[Trust], Draft], text: Draft | None = None) -> Settled:
        """Try what a running program did, then what the text says, then the recorded size alone.

        The first that is admitted counts, unless a later one is stricter and admitted too.
        """
        sources: tuple[tuple[Callable[[], Draft], str], ...] = (
            (partial(recorded, "apart"), "recorded"),
            (partial(recorded, "joined"), "recorded, equal sizes taken as one"),
            *([(lambda: text, "read off the text")] if text is not None else []),
            (partial(recorded, "fixed"), "recorded, its one size"),
        )
        settled: Settled | None = None
        best: Problem | None = None  # the admitted one
        tried: list[KnownProblem] = []
        for make, source in sources:
            made = make()
            if best is not None and not admit.stricter(made.known.problem, best):
                continue
            if made is text:
                made = reached.measured(made, self.code, self.judge.reach)
            problem = made.known.problem
            early = problem.single_size and source is not sources[-1][1]
            if made.known in tried or early or (made.reasons and settled is not None):
                continue
            tried.append(made.known)
            before = self.path.read_bytes() if settled is not None else b""
            found = self.settle(made, (f"Source: {source}.",))
            found = found._replace(line=f"{found.line} ({source})")
            found = found._replace(why=source) if found.admitted else found
            # The first source counts; but a recorded launch that is refused says more than an open text.
            last = settled is not None and settled.outcome == "open" and source is sources[-1][1]
            best = problem if found.admitted else best
            if settled is None or found.admitted or last:
                settled = found
            else:
                store.write_bytes(self.path, before)
        assert settled is not None, "the recorded size alone is a source"
        return settled if settled.admitted else self.completed() or settled

    def completed(self) -> Settled | None:
        """The draft on file as completed, if that is admitted; it decides nothing about where it belongs."""
        if self.complete is None:
            return None
        before = reading.read(self.path)
        text = self.complete(before.text, self.code)
        if text is None:
            return None
        admitted = False
        try:
            store.write_bytes(self.path, f"{COMPLETED}\n{text}".encode("utf-8", "replace"))
            found = reading.read(self.path)
            admitted = (
                found.known is not None
                and not found.faults
                and found.kernel == before.kernel
                and not reads_files(found.known)
                and not faults(found, self.code, self.judge)
            )
        finally:
            if not admitted:  # also if interrupted halfway: the form keeps its marks
                store.write_bytes(self.path, before.text.encode())
        if not admitted or found.known is None:
            return None
        (side,) = found.known.sides.values()
        known = KnownProblem(
            self.kernel.source.suite,
            self.kernel.benchmark,
            found.known.problem,
            {self.kernel.variant or "": side},
            (self.kernel.span.path,),
        )
        store.write_json(self.path.with_name(RECORD_NAME), tied(known, self.code))
        return Settled("completed", "", "completed and admitted")

    def _write(self, made: Draft, heading: Sequence[str]) -> None:
        store.write_bytes(self.path, form.render(made, heading).encode())


def _open_heading(made: Draft) -> list[str]:
    return [
        f"Draft problem of {made.kernel}. Lines with a trailing `?` comment are open:",
        "fill them in and delete the comment; `# guess` marks values that were made up.",
        f"Then: kcurate problem check {FORM_NAME}",
    ]
