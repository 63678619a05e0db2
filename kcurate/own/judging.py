"""`kcurate.judge` and `kcurate.Judge`: two kernels as text or files, with example calls, to a verdict.

It works like `kcurate pair`, with the examples in place of a recorded program. Not covered: reading the
examples (`example_calls`), launches (`launch_expressions`), the judge itself (`kcurate.judge`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from kcurate.backends.choice import choose
from kcurate.core import store
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import kernel_signatures
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.draft.for_pairs import shared_problem
from kcurate.draft.for_pairs.other_kernel import PairKernel, PlacedProblem, counterpart
from kcurate.draft.trying.completed_files import AdmittingJudge
from kcurate.draft.trying.draft_choice import Settling
from kcurate.errors import InputError
from kcurate.extract.naming import safe_part
from kcurate.judge import Judge as OneJudge
from kcurate.judge import JudgeConfig
from kcurate.lookup.show import ShownKernel, ShownPair, find
from kcurate.own.example_calls import ExampleCalls, by_kernel, examples
from kcurate.own.example_sides import ExampleSide
from kcurate.own.kernels import UserKernel, find_kernels
from kcurate.own.launch_expressions import Extents, Launching
from kcurate.own.pair import pair_of
from kcurate.records import SIDES, Candidate, Outcome, SideName, Verdict

Text = str | Path
Judged = Candidate | ShownPair
# One for both sides, or one for each: `{"slow": ..., "fast": ...}`.
Launched = Extents | Mapping[str, Extents]
Named = str | Mapping[str, str | None]
# A call by name or in order; or several.
Args = Mapping[str, Any] | Sequence[Any]
ExampleSides = Mapping[SideName, ExampleSide]


def judge(
    slow: Text | Judged,
    fast: Text | None = None,
    *,
    grid: Launched | None = None,
    block: Launched | None = None,
    args: Args | None = None,
    shared_bytes: Launched = 0,
    cooperative: bool | Mapping[str, bool] = False,
    kernel: Named | None = None,
    outputs: Sequence[str] | None = None,
    backend: str = "auto",
    gpu: int | None = None,
) -> Verdict:
    """Judge two CUDA kernels, or a pair: do they compute the same, and on a GPU, is the fast one faster?

    `slow` and `fast` are text, or files (`rows.cu`, `rows.cu:KERNEL`); `slow` is the reference. `args` is an
    example call, by parameter name or in order: arrays (NumPy, torch) become buffers, integers sizes. The
    judge varies both: what it keeps of the examples is how sizes belong together and what values are like.
    Give several examples as a list where one leaves it open. Extents that are the same in every example and
    belong to no integer are constants. On a GPU both sides are timed at the size of the largest example.

    `grid`, `block` and `shared_bytes` are numbers, text over the integer parameters, functions of them, or
    tuples of these; a number for a grid is that of the example, and is explained by its sizes. `kernel` names
    one of several, or an instance of a template (`"scale<float>"`). `outputs` names the buffers to compare
    (default: all that the kernels write). Each of these may also be given a side: `{"slow": 1, "fast": 2}`.
    `backend` is `auto`, `cuda` or `emulator`. For many kernels, keep a `Judge`.

    Raises:
        InputError: text without a kernel or with several, arguments that do not fit, examples that disagree.
        MissingDependencyError: this machine lacks a compiler or the GPU.
    """
    with Judge(backend, gpu) as warm:
        return warm.judge(
            slow,
            fast,
            grid=grid,
            block=block,
            args=args,
            shared_bytes=shared_bytes,
            cooperative=cooperative,
            kernel=kernel,
            outputs=outputs,
        )


def load(name: str, workspace: Path | str = DEFAULT_WORKSPACE) -> ShownPair | ShownKernel:
    """A pair or kernel by id, the end of an id, a unique prefix or a path: built-in, or of a workspace.

    A pair has its `candidate`, its `verdicts` and its `profiles`.

    Raises:
        InputError: nothing has that name, or several do.
    """
    return find(name, Workspace(Path(workspace)))


class Judge:
    """Judges pairs one after the other with warm workers; a context manager. Not thread safe.

    The admitted problem of a reference is kept too, so that another `fast` against the same `slow` is judged
    at once. `note` receives one line per guess.

    Raises:
        InputError: no such backend. MissingDependencyError: this machine lacks a compiler or the GPU.
    """

    def __init__(self, backend: str = "auto", gpu: int | None = None, *, note: Note = silent) -> None:
        place = choose(backend, "auto" if gpu is None else str(gpu))
        self._note = note
        self._timed = place.backend == "cuda"
        self._gpu = place.gpus[0]
        self._admitting = AdmittingJudge(self._gpu if self._timed else None)
        self._judge: OneJudge | None = None
        self._references: dict[str, PlacedProblem] = {}

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        self._admitting.close()
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def judge(
        self,
        slow: Text | Judged,
        fast: Text | None = None,
        *,
        grid: Launched | None = None,
        block: Launched | None = None,
        args: Args | None = None,
        shared_bytes: Launched = 0,
        cooperative: bool | Mapping[str, bool] = False,
        kernel: Named | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Verdict:
        """The verdict on two kernels or a pair; the arguments are those of `kcurate.judge`, which says more.

        Raises:
            InputError, MissingDependencyError: as `kcurate.judge`.
        """
        if isinstance(slow, ShownPair | Candidate):
            if (fast, grid, block, args) != (None, None, None, None):
                raise InputError("a pair has its own sides, launches and inputs", where="slow")
            return self._judged(slow.candidate if isinstance(slow, ShownPair) else slow)
        if fast is None:
            raise InputError("no fast side", where="fast", hint="give two kernels, or one pair")
        call = _Call(slow, fast, grid, block, args, shared_bytes, cooperative, kernel, outputs)
        candidate, verdict = self._paired(call)
        if not self._timed or verdict.outcome is not Outcome.CORRECT:
            return verdict
        return self._judged(candidate)

    def pair(self, slow: Text, fast: Text, **call: Any) -> Candidate:
        """The pair that `judge` would judge, with its problem; the arguments are those of `judge`.

        Raises:
            InputError, MissingDependencyError: as `kcurate.judge`.
        """
        return self._paired(_Call(slow, fast, **call))[0]

    def _judged(self, candidate: Candidate) -> Verdict:
        if self._judge is None or not self._judge.usable:
            if self._judge is not None:
                self._judge.close()
            config = JudgeConfig("cuda" if self._timed else "emulator", self._gpu)
            self._judge = OneJudge(config)
        return self._judge.judge(candidate)

    def _paired(self, call: _Call) -> tuple[Candidate, Verdict]:
        """The pair with its problem, and the verdict on the test sizes."""
        with tempfile.TemporaryDirectory(prefix="kcurate-") as folder:
            slow, fast = call.kernels(Path(folder), self._note)
            if slow.code == fast.code:
                raise InputError("both sides are the same code", where="slow, fast")
            example_sides = call.example_sides(slow.extracted, fast.extracted)
            name = safe_part(f"{slow.kernel.name}-{fast.kernel.name}")
            return self._judged_alike(pair_of(slow, fast, name), example_sides)

    def _judged_alike(self, pair: Candidate, sides: ExampleSides) -> tuple[Candidate, Verdict]:
        """The pair on the slow side's problem if it is admitted, else on the fast one's, else as drafted."""
        unadmitted: list[Candidate] = []
        why = ""
        for owner, other in ((sides["slow"], sides["fast"]), (sides["fast"], sides["slow"])):
            placed, admitted = self._known(owner)
            side = counterpart(placed, owner.extracted, other.extracted)
            if isinstance(side, str):
                why = why or side
                continue
            sides_by_name = {
                owner.name: placed.side.side(owner.extracted.code),
                other.name: other.relaunched(side),
            }
            origin = replace(pair.origin, problem=placed.origin)
            with_problem = replace(
                pair,
                problem=placed.problem,
                origin=origin,
                slow=sides_by_name["slow"],
                fast=sides_by_name["fast"],
            )
            if admitted:
                return shared_problem.judged(with_problem, self._admitting)
            unadmitted.append(with_problem)
        if not unadmitted:
            hint = "give both kernels the same parameters: the same names, or types in the same order"
            raise InputError(why, where="slow, fast", hint=hint)
        return unadmitted[0], self._admitting(unadmitted[0])

    def _known(self, example: ExampleSide) -> tuple[PlacedProblem, bool]:
        """A kernel's problem from its examples, and whether it is admitted.

        Raises:
            InputError: the examples leave something open.
        """
        draft = example.draft("apart")
        key = store.content_id(repr((example.extracted.code, draft.known.problem, draft.known.sides)))
        if (placed := self._references.get(key)) is not None:
            return placed, True
        settling = Settling(
            example.extracted.folder / "kernel.json", example.kernel, example.extracted.code, self._admitting
        )
        settled = settling.settle_recorded(example.draft)
        self._note(f"{example.kernel.name}: {settled.line}")
        if settled.admitted and (placed := example.extracted.known()) is not None:
            example.check_extents(placed.problem, placed.side)
            self._references[key] = placed
            return placed, True
        if draft.reasons:
            remark = next(remark for remark in draft.remarks if remark.open)
            hint = "another example with other sizes may tell; docs/python.md says what examples can say"
            raise InputError(f"{remark.place}: {remark.text}", where=example.kernel.name, hint=hint)
        (side,) = draft.known.sides.values()
        return PlacedProblem(draft.known.problem, side, "captured"), False


@dataclass(frozen=True)
class _Call:
    """The arguments of `judge` for two kernels."""

    slow: Text
    fast: Text
    grid: Any = None
    block: Any = None
    args: Any = None
    shared_bytes: Any = 0
    cooperative: Any = False
    kernel: Any = None
    outputs: Sequence[str] | None = None

    def kernels(self, folder: Path, note: Note) -> tuple[UserKernel, UserKernel]:
        """Both kernels, extracted into a workspace in the folder.

        Raises:
            InputError: text or a file that holds no kernel, or several of which none is named.
        """
        names = [self._file(side, folder) for side in SIDES]
        try:
            slow, fast = find_kernels(names, folder / "work", note=note, compile=False)
        except InputError as error:
            where = error.where or ""
            text = next((side for side in SIDES if str(_text_file(folder, side)) in where), where)
            raise InputError(error.what, where=text or None, hint=error.hint) from error
        return slow, fast

    def _file(self, side: SideName, folder: Path) -> str:
        """The file of a side, as `find_kernels` takes it; text is written into one."""
        code = getattr(self, side)
        base = Demangled.of(self._instance(side)).base if self._instance(side) else ""
        if not isinstance(code, str | Path):
            raise InputError(f"takes text or a file, not {type(code).__name__}", where=side)
        if isinstance(code, Path) or not re.search(r"[\n{;]|__global__", code):
            return f"{code}:{base}" if base else str(code)
        try:
            names = [name.rpartition("::")[2] for name in kernel_signatures(code.encode())]
        except UnicodeEncodeError as error:
            raise InputError("has characters that UTF-8 cannot write", where=side) from error
        if not names:
            raise InputError("no kernel in the text", where=side, hint="give a __global__ function")
        if len(names) > 1 and not base:
            hint = f"name one: kernel={names[0]!r}, or kernel={{'{side}': {names[0]!r}}} for this side alone"
            raise InputError(f"{len(names)} kernels in the text: {', '.join(names)}", where=side, hint=hint)
        if base and base not in names:
            raise InputError(f"no kernel {base!r} in the text: {', '.join(names)}", where=side)
        path = _text_file(folder, side)
        path.write_text(code, encoding="utf-8")
        return f"{path}:{base}" if base else str(path)

    def _instance(self, side: SideName) -> str:
        name = _of_side(self.kernel, side)
        if name is None:
            return ""
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"takes a kernel's name, not {name!r}", where="kernel")
        return name.strip()

    def _outputs(self) -> tuple[str, ...] | None:
        outputs = (self.outputs,) if isinstance(self.outputs, str) else self.outputs
        if outputs is None:
            return None
        listed = isinstance(outputs, list | tuple) and all(isinstance(name, str) for name in outputs)
        if not outputs or not listed:
            raise InputError(f"takes the names of buffers, not {outputs!r}", where="outputs")
        return tuple(outputs)

    def example_sides(self, slow: PairKernel, fast: PairKernel) -> dict[SideName, ExampleSide]:
        """The example calls of both kernels.

        Raises:
            InputError: arguments or launches that do not fit the kernels.
        """
        calls = [by_kernel(call, slow, fast) for call in examples(self.args)]
        example_sides: dict[SideName, ExampleSide] = {}
        for index, (side, pair_kernel) in enumerate(zip(SIDES, (slow, fast), strict=True)):
            launched = (self.grid, self.block, self.shared_bytes, self.cooperative)
            launching = Launching.of(*(_of_side(value, side) for value in launched))
            kernel, instance = pair_kernel.kernel, self._instance(side) or pair_kernel.kernel.name
            if "<" in instance:
                kernel = replace(kernel, instantiations=(instance,))
            recorded = ExampleCalls(
                kernel, pair_kernel.code, instance, [call[index] for call in calls], launching
            )
            example_sides[side] = ExampleSide(side, pair_kernel, recorded, self._outputs())
            _ = recorded.capture  # what does not fit is said before anything runs
        return example_sides


def _text_file(folder: Path, side: SideName) -> Path:
    return folder / f"{side}.cu"


def _of_side(value: Any, side: SideName) -> Any:
    """The value for one side; `value` may be one for both sides, or a mapping by side."""
    if isinstance(value, Mapping):
        if set(value) != set(SIDES):
            raise InputError(f"{dict(value)!r} is not one value a side", hint="{'slow': ..., 'fast': ...}")
        return value[side]
    return value
