"""Settles one kernel's draft: tried, written beside the kernel, completed by a model if there is one.

Not covered: which drafts a kernel has (`stage`), trying one (`admit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kcurate.core import own_files, store
from kcurate.draft.captured.expression_choice import Trust
from kcurate.draft.file import toml_reader, toml_writer
from kcurate.draft.for_pairs.other_kernel import FORM_NAME
from kcurate.draft.sketch import Draft, known_problem
from kcurate.draft.trying import admit, measured_extents
from kcurate.draft.trying.completed_files import RECORD_NAME, AdmittingJudge, faults
from kcurate.draft.trying.model_proposals import Try, reads_files
from kcurate.records import Kernel, KnownProblem, Problem, Verdict
from kcurate.suites.problems import tied

COMPLETED = "# Open places were filled in by a program; admitted."
# How many of one kernel's launches are tried.
MAX_LAUNCHES = 3
BEYOND = "past the end of an allocation"
# Takes a draft's text and the kernel's code, and tries completed texts.
Complete = Callable[[str, str, Try], None]

# The outcome of a problem admitted at one size: of the recorded launches, or of constants in the code.
SINGLE_SIZE = "single_size"


class Settled(NamedTuple):
    """A kernel's outcome, its reason if any, and a message; `recorded`: sizes are of recorded launches.

    `verdict`: of the judge that refused the draft.
    """

    outcome: str
    why: str
    line: str
    recorded: bool = False
    verdict: Verdict | None = None

    @property
    def admitted(self) -> bool:
        """Whether the problem may be used."""
        return self.outcome in ("admitted", SINGLE_SIZE)


@dataclass(frozen=True)
class Settling:
    """Tries the drafts of one kernel with `judge`, and writes the one that counts beside its record."""

    record: Path
    kernel: Kernel
    code: str
    judge: AdmittingJudge

    @property
    def path(self) -> Path:
        """The draft's file."""
        return self.record.with_name(FORM_NAME)

    def settle(self, draft: Draft, heading: Sequence[str] = ()) -> Settled:
        """Write a draft, and try it first if nothing is open; `heading`: more lines for the head of the
        file."""
        if draft.reasons:
            self._write(draft, [*_open_heading(draft), *heading])
            return Settled("open", draft.reasons[0], f"open: {', '.join(draft.reasons)}: {self.path}")
        result = admit.admit(draft, self.code, self.judge, draft.ladder)
        self._write(result.draft, [*result.heading(), *heading])
        if result.admitted:
            store.write_json(self.record.parent / RECORD_NAME, result.draft.known)
            if result.draft.known.problem.single_size:
                return Settled(SINGLE_SIZE, "", "admitted at its one size")
            untested = f"; {result.untested}" if result.untested else ""
            return Settled("admitted", "", f"admitted at sizes {result.sizes}{untested}")
        outcome = str(result.verdict.outcome)
        return Settled("refused", outcome, f"{outcome}: {result.verdict.detail}", verdict=result.verdict)

    def settle_texts(self, texts: Sequence[Draft], heading: Sequence[str] = ()) -> Settled:
        """Settle the drafts from code: of several launches that differ, the strictest that is admitted
        counts.

        If none is, the first counts.
        """
        tried = [texts[0].known]
        settled, best = self._settle_text(texts[0], heading), texts[0].known.problem
        for text in texts[1:]:
            if text.known in tried or text.reasons or settled.outcome == "open":
                continue
            if settled.admitted and not admit.stricter(text.known.problem, best):
                continue
            if len(tried) == MAX_LAUNCHES:
                break
            tried.append(text.known)
            before = own_files.read(self.path)
            outcome = self._settle_text(text, heading)
            if outcome.admitted:
                settled, best = outcome, text.known.problem
            else:
                store.write_bytes(self.path, before)
        return settled

    def _settle_text(self, text: Draft, heading: Sequence[str]) -> Settled:
        """Settle one launch's draft; if it is refused or open, retry with what keeps the kernel inside its
        buffers.

        That is: only zeros and ones in integer inputs, and extents that may be larger than needed.
        """
        settled = self._settle_extents(text, heading)
        few_valued = measured_extents.narrowed(text)
        if settled.outcome not in ("open", "refused") or set(text.reasons) - measured_extents.FILLED:
            return settled
        if few_valued is None and settled.outcome != "open":
            return settled
        draft = measured_extents.measured(few_valued or text, self.code, self.judge.reach, enough=True)
        before = own_files.read(self.path)
        retried = settled if draft.reasons else self.settle(draft, heading)
        if retried.admitted or settled.outcome == "open":
            return retried
        store.write_bytes(self.path, before)
        return settled

    def _settle_extents(self, text: Draft, heading: Sequence[str]) -> Settled:
        """Settle a draft. Open extents are measured in a run; if the kernel accesses memory past the host's
        allocations, all extents are.
        """
        settled = self.settle(measured_extents.measured(text, self.code, self.judge.reach), heading)
        if settled.outcome == "refused" and BEYOND in settled.line:
            draft = measured_extents.measured(measured_extents.reopened(text), self.code, self.judge.reach)
            before = own_files.read(self.path)
            retried = settled if draft.reasons else self.settle(draft, heading)
            if not retried.admitted and BEYOND in retried.line:
                store.write_bytes(self.path, before)
            else:
                settled = retried
        return settled

    def settle_recorded(self, recorded: Callable[[Trust], Draft], text: Draft | None = None) -> Settled:
        """Try the drafts from recorded launches, then the one from code, then the recorded size alone.

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
            draft = make()
            if best is not None and not admit.stricter(draft.known.problem, best):
                continue
            from_text = draft is text
            if from_text:
                draft = measured_extents.measured(draft, self.code, self.judge.reach)
            problem = draft.known.problem
            is_too_early = problem.single_size and source is not sources[-1][1]
            if draft.known in tried or is_too_early or (draft.reasons and settled is not None):
                continue
            tried.append(draft.known)
            before = own_files.read(self.path) if settled is not None else b""
            outcome = self.settle(draft, (f"Source: {source}.",))
            outcome = outcome._replace(line=f"{outcome.line} ({source})", recorded=not from_text)
            outcome = outcome._replace(why=source) if outcome.admitted else outcome
            # The first source counts; but a recorded launch that is refused says more than an open text.
            replaces_open = settled is not None and settled.outcome == "open" and source is sources[-1][1]
            best = problem if outcome.admitted else best
            if settled is None or outcome.admitted or replaces_open:
                settled = outcome
            else:
                store.write_bytes(self.path, before)
        assert settled is not None, "the recorded size alone is a source"
        return settled

    def completed(self, complete: Complete) -> Settled | None:
        """The outcome if `complete` fills in the draft on file and that is admitted, else None.

        Suite and benchmark are taken from the kernel, never from the completed text.
        """
        before = toml_reader.read(self.path)
        admitted: list[KnownProblem] = []

        def attempt(text: str) -> str | None:
            known = self._filled_in(text, before)
            if isinstance(known, str):
                return known
            admitted.append(known)
            return None

        complete(before.text, self.code, attempt)
        if not admitted:
            return None
        (side,) = admitted[0].sides.values()
        known = known_problem(self.kernel, admitted[0].problem, side)
        store.write_json(self.path.with_name(RECORD_NAME), tied(known, self.code))
        return Settled("completed", "", "completed and admitted")

    def _filled_in(self, text: str, before: toml_reader.Form) -> KnownProblem | str:
        """Write a completed text to the draft's file; returns its problem if admitted, else the reason, with
        the file restored."""
        admitted = False
        try:
            store.write_bytes(self.path, f"{COMPLETED}\n{text}".encode("utf-8", "replace"))
            form = toml_reader.read(self.path)
            why = _listed(form.faults)
            if form.known is None:
                return why or "it holds no problem"
            if form.kernel != before.kernel:
                why = f"the table [draft] names another kernel than {before.kernel}"
            elif reads_files(form.known):
                why = "a buffer is read from a file"
            elif not why:
                why = _listed(faults(form, self.code, self.judge))
            admitted = not why
            return why or form.known
        finally:
            if not admitted:  # also if interrupted halfway: the form keeps its marks
                store.write_bytes(self.path, before.text.encode())

    def _write(self, draft: Draft, heading: Sequence[str]) -> None:
        store.write_bytes(self.path, toml_writer.render(draft, heading).encode())


def _listed(file_faults: Sequence[toml_reader.Fault]) -> str:
    """Faults for a model's prompt, one line each."""
    return "\n".join(
        f"line {fault.line}: {fault.what}" if fault.line else fault.what for fault in file_faults
    )


def _open_heading(draft: Draft) -> list[str]:
    return [
        f"Draft problem of {draft.kernel}. Lines with a trailing `?` comment are open:",
        "fill them in and delete the comment; `# guess` marks values that were made up.",
        f"Then: kcurate problem check {FORM_NAME}",
    ]
