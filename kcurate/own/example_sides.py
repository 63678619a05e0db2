"""One side with its example calls: its draft, with the launch that the caller gave.

Not covered: reading examples (`example_calls`) and launches (`launch_expressions`), the verdict (`judging`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.draft.captured.expression_choice import Trust
from kcurate.draft.captured.from_launches import recorded
from kcurate.draft.for_pairs.other_kernel import PairKernel, launches_of, renamed
from kcurate.draft.size_settings import SMALL
from kcurate.draft.sketch import Draft
from kcurate.errors import InputError, ProblemError
from kcurate.own.example_calls import ExampleCalls, array_of
from kcurate.own.launch_expressions import AXES, Launching
from kcurate.problem.expressions import names_in
from kcurate.problem.outputs import logical_bytes, output_names
from kcurate.records import Buffer, Expr, Kernel, KnownSide, Launch, Problem, Side, SideName, ValueArg


@dataclass(frozen=True)
class ExampleSide:
    """One side: its kernel, and the example calls in its parameters."""

    name: SideName
    extracted: PairKernel
    calls: ExampleCalls
    outputs: Sequence[str] | None

    @property
    def kernel(self) -> Kernel:
        """The kernel's record, with the instance of a template."""
        return self.calls.kernel

    def draft(self, trust: Trust) -> Draft:
        """The draft from the examples, with the launch that the caller gave."""
        capture, hints = self.calls.capture, self.calls.hints()
        numbers = [number for sizes in self.calls.sizes() for number in sizes.values()]
        # In a small example every number may be a size; otherwise small ones are constants, such as a radius.
        most_constant = SMALL if max(numbers, default=0) > SMALL else 1
        draft = recorded(self.kernel, self.extracted.code, capture, hints, trust, most_constant=most_constant)
        ((variant, side),) = draft.known.sides.items()
        if not launches_of(side.plan):
            return draft
        plan = tuple(self._as_given(step) if isinstance(step, Launch) else step for step in side.plan)
        problem = self._compared(draft.known.problem)
        sides = {variant: replace(side, plan=plan)}
        return replace(draft, known=replace(draft.known, problem=problem, sides=sides))

    def _as_given(self, drafted: Launch) -> Launch:
        """The caller's launch; where that has a number, the draft's expression for it."""
        launching = self.calls.launching
        launch = self._launch(drafted, launching)

        def chosen(
            axes: Sequence[Expr], given_axes: Sequence[Expr], explained: Sequence[Expr]
        ) -> tuple[Expr, ...]:
            triples = zip(axes, given_axes, _padded(explained), strict=False)
            return tuple(launched if isinstance(axis, str) else text for axis, launched, text in triples)

        (shared,) = chosen((launching.shared_bytes,), (launch.shared_bytes,), (drafted.shared_bytes,))
        return replace(
            launch,
            grid=chosen(launching.grid, launch.grid, drafted.grid),
            block=chosen(launching.block, launch.block, drafted.block),
            shared_bytes=shared,
        )

    def check_extents(self, admitted: Problem, side: KnownSide) -> None:
        """Refuse an example with an array that is shorter than the kernel needs.

        Raises:
            InputError: one is; `admitted` is the problem with the extents that work.
        """
        (launch,) = launches_of(side.plan)
        names = _passed(self.kernel, launch)
        for call, numbers in zip(self.calls.calls, self.calls.sizes(), strict=True):
            sizes = {str(names[name]): number for name, number in numbers.items() if name in names}
            for param, value in zip(self.kernel.params, call, strict=True):
                array, buffer = array_of(value, param.name), admitted.buffers.get(param.name)
                if array is None or buffer is None or not _names(buffer) <= sizes.keys():
                    continue
                available, needed = array.values.nbytes, logical_bytes(buffer, sizes)
                if available < needed:
                    unit = array.values.itemsize
                    what = f"has {available // unit} elements where {self.kernel.name} needs {needed // unit}"
                    raise InputError(f"{what} ({buffer.shape[0]})", where=f"args[{param.name!r}]")

    def relaunched(self, side: Side) -> Side:
        """A side that was translated from the other kernel's plan, with this kernel's own launch."""
        launching = self._over_parameters()
        plan = (self._launch(step, launching) if isinstance(step, Launch) else step for step in side.plan)
        return replace(side, plan=tuple(plan))

    def _over_parameters(self) -> Launching:
        """The launch over the kernel's parameters; numbers become the expressions of this kernel's own
        draft."""
        ((_, side),) = self.draft("apart").known.sides.items()
        (launch,) = launches_of(side.plan)
        names = {name: size for size, name in _passed(self.kernel, launch).items() if isinstance(name, str)}
        launching = self.calls.launching

        def chosen(explained: Sequence[Expr], axes: Sequence[Expr]) -> Iterator[Expr]:
            for axis, own_axis in zip(axes, _padded(explained), strict=False):
                try:
                    yield axis if isinstance(axis, str) else renamed(own_axis, names)
                except ProblemError:  # by a size that is none of the parameters
                    yield axis

        (shared,) = chosen((launch.shared_bytes,), (launching.shared_bytes,))
        grid, block = chosen(launch.grid, launching.grid), chosen(launch.block, launching.block)
        return Launching(tuple(grid), tuple(block), shared, launching.cooperative)

    def _launch(self, step: Launch, launching: Launching) -> Launch:
        """The launch with these expressions over the kernel's parameters."""
        names = _passed(self.kernel, step)

        def over_sizes(axes: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(renamed(axis, names) for axis in axes)

        try:
            (shared,) = over_sizes((launching.shared_bytes,))
            return replace(
                step,
                template=Demangled.of(self.calls.instance).template,
                grid=over_sizes(launching.grid),
                block=over_sizes(launching.block),
                shared_bytes=shared,
                cooperative=launching.cooperative,
            )
        except ProblemError as error:
            raise InputError(error.what, where=f"the launch of {self.kernel.name}") from error

    def _compared(self, problem: Problem) -> Problem:
        """The problem that compares only the named outputs; other written buffers become scratch.

        Raises:
            InputError: a named one is not written, or an unnamed one also starts with values.
        """
        if self.outputs is None:
            return problem
        written = output_names(problem)
        if unwritten := [name for name in self.outputs if name not in written]:
            hint = f"it writes {', '.join(sorted(written)) or 'nothing'}"
            raise InputError(f"{self.kernel.name} does not write {unwritten[0]}", where="outputs", hint=hint)

        named = frozenset(self.outputs)

        def role(name: str, buffer: Buffer) -> Buffer:
            if name in named or name not in written:
                return buffer
            if buffer.role == "inout":
                what = f"{self.kernel.name} also reads {name}, so it is compared"
                raise InputError(what, where="outputs", hint="name it too")
            return replace(buffer, role="scratch", init=None, tolerance=None)

        buffers = {name: role(name, buffer) for name, buffer in problem.buffers.items()}
        return replace(problem, buffers=buffers)


def _passed(kernel: Kernel, launch: Launch) -> dict[str, Expr]:
    """What a launch passes to each of the kernel's parameters: a name of the problem, or an expression."""
    passed = {}
    for param, arg in zip(kernel.params, launch.args, strict=True):
        value = arg.value if isinstance(arg, ValueArg) else arg
        if isinstance(value, int | str):
            passed[param.name] = value
    return passed


def _names(buffer: Buffer) -> frozenset[str]:
    """The sizes in a buffer's shape."""
    return frozenset[str]().union(*map(names_in, buffer.shape))


def _padded(extents: Sequence[Expr]) -> list[Expr]:
    """One extent for each axis."""
    return [*extents, *[1] * (AXES - len(extents))]
