"""Turns a PyTorch module in KernelBench's layout into a problem: sizes, buffers, tolerances, the call.

Runs the module's code, so it belongs in a worker process (`kernelbench.worker`). A problem is returned only
after it ran on the emulator as the judge runs it, and passed the judge's negative controls. Each step has a
module of its own (`meta_shapes`, `sizes`, `values`, `strength`).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kcurate.backends import torch_module, torch_text
from kcurate.errors import ProblemError
from kcurate.kernelbench import sizes as sizing
from kcurate.kernelbench import strength
from kcurate.kernelbench import values as valuing
from kcurate.kernelbench.meta_shapes import MODEL, Array, Facts, forward_names, look, state_of
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.records import Buffer, Call, Expr, Init, Problem, Scalar, Side, Sizes, Tolerance

# A test runs on the emulator: the most array elements, and the most additions, that it may have.
MAX_TEST_ELEMENTS = 2_000_000
MAX_TEST_TERMS = 60_000_000
# Longer sums are assumed to be reduced as a tree, with at least `PARTIAL_SUMS` partial sums.
MANY_TERMS = 1 << 20
PARTIAL_SUMS = 256
# Keywords and types of CUDA C++, which no buffer may have as its name.
TAKEN = frozenset(
    {
        *("auto", "bool", "break", "case", "char", "class", "const", "default", "delete", "do", "double"),
        *("else", "enum", "float", "for", "half", "if", "inline", "int", "long", "new", "operator"),
        *("private", "public", "register", "return", "short", "signed", "sizeof", "static", "struct"),
        *("switch", "template", "this", "typedef", "union", "unsigned", "using", "void", "volatile", "while"),
    }
)
# How many inputs are sampled to recognise their distribution, and about how large each is.
SAMPLES = 3
SAMPLED_ELEMENTS = 20_000
# A tolerance is widened by this factor at a time.
WIDER = 4
START_SEED = 0


@dataclass(frozen=True)
class ModuleProblem:
    """The problem, the side that calls the module, and the sizes in the file."""

    problem: Problem
    side: Side
    as_in_file: Mapping[str, int]


def problem_of(code: str, bench_bytes: int | None, widest: int = 1) -> ModuleProblem:
    """The problem of a module. Its bench size is the file's, halved until all arrays fit into `bench_bytes`.

    `widest`: the largest factor by which the usual tolerance may be widened if the module's own rounding
    needs it.

    Raises:
        ProblemError: it cannot become a problem; the message says why.
    """
    import torch

    # A worker analyses many modules, and ranges of parameters come from a module's initial weights: without
    # this seed, a module's problem would depend on which modules the worker analysed before.
    torch.manual_seed(START_SEED)
    return _Analysis(code, bench_bytes, widest).strong_problem()


class _Analysis:
    """Finds which constants of a module are its sizes, and formulas over them for its shapes and sums."""

    def __init__(self, code: str, bench_bytes: int | None, widest: int = 1) -> None:
        self.widths = [WIDER**step for step in range(8) if WIDER**step <= widest]
        self.facts = functools.cache(self._facts)
        self._analyse(code)
        if not self.names:
            self._merge_equal_constants()
        if not self.names:
            raise ProblemError("none of its sizes can be changed")
        self.bench = self._bench(bench_bytes)
        self.tests = sizing.settings(self.names, self.bench, self.runs, self._light)
        if any(self._elements(sizes) > MAX_TEST_ELEMENTS for sizes in self.tests):
            raise ProblemError("its sizes cannot be made small enough")

    def _analyse(self, code: str) -> None:
        """Analyse code: its constants, and which of them are sizes."""
        self.code = code
        self.constants = torch_text.constants(code)
        self.facts.cache_clear()
        self.base = look(code, self.constants)
        shapes = sum(len(array.shape) for array in self.base.input_arrays)
        self.names = sizing.size_names(self.constants, self.numbers, shapes)

    def _merge_equal_constants(self) -> None:
        """Merge constants of equal value into one, which may be a size where none of them is alone."""
        code, by_value = self.code, dict[int, list[str]]()
        for name, value in self.constants.items():
            by_value.setdefault(value, []).append(name)
        for value in sorted(by_value, reverse=True):
            if len(by_value[value]) > 1:
                self._analyse(torch_text.joined(code, by_value[value]))
                if self.names:
                    return

    def _facts(self, values: tuple[tuple[str, int], ...]) -> Facts | None:
        try:
            facts = look(self.code, dict(values))
        except ProblemError:
            return None
        nonempty = all(extent > 0 for array in facts.arrays for extent in array.shape)
        return facts if nonempty and facts.form() == self.base.form() else None

    def numbers(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """`Facts.numbers` at these sizes; None if the module does not run there with the same structure."""
        facts = self.facts(tuple(sizes.items()))
        return None if facts is None else facts.numbers()

    def at(self, sizes: Mapping[str, int]) -> Facts:
        """The facts at these sizes."""
        facts = self.facts(tuple(sizes.items()))
        if facts is None:
            raise ProblemError(f"it does not run at sizes {dict(sizes)}")
        return facts

    def _bytes(self, sizes: Mapping[str, int]) -> int:
        return sum(array.count * numpy_dtype(array.dtype).itemsize for array in self.at(sizes).arrays)

    def _elements(self, sizes: Mapping[str, int]) -> int:
        return sum(array.count for array in self.at(sizes).arrays)

    def _light(self, sizes: Mapping[str, int]) -> bool:
        facts = self.at(sizes)
        terms = sum(array.count for array in facts.outputs) * max(facts.terms, default=1)
        return self._elements(sizes) <= MAX_TEST_ELEMENTS and terms <= MAX_TEST_TERMS

    def runs(self, sizes: Mapping[str, int]) -> bool:
        """Whether the module runs at these sizes with the same structure."""
        return self.numbers(sizes) is not None

    def _bench(self, limit: int | None) -> dict[str, int]:
        """The file's sizes, halved until they fit, starting with the leading size of the first input."""
        sizes = {name: self.constants[name] for name in self.names}
        stuck: set[str] = set()
        while limit is not None and self._bytes(sizes) > limit and len(stuck) < len(sizes):
            free = [name for name in self.names if name not in stuck]
            least = 2 if self.leading.startswith("batch") else 16
            use_leading = self.leading in free and sizes[self.leading] > least
            name = self.leading if use_leading else max(free, key=lambda free_name: sizes[free_name])
            halved = {**sizes, name: max(1, sizes[name] // 2)}
            if halved == sizes or self.numbers(halved) is None:
                stuck.add(name)
            else:
                sizes = halved
        return sizes

    @functools.cached_property
    def leading(self) -> str:
        """The size that determines the first extent of the first input."""
        for name in self.names:
            for other in sizing.other_values(self.constants[name]):
                changed = self.numbers({**self.constants, name: other})
                if changed is not None and changed[0] != self.base.numbers()[0]:
                    return name
        return self.names[0]

    def formulas(self) -> Iterator[Expr]:
        """A formula over the sizes for every number of `Facts.numbers`, in order."""
        samples = sizing.samples(self.names, (*self.tests, self.bench), self.numbers)
        samples += [(sizes, self.at(sizes).numbers()) for sizes in (*self.tests, self.bench)]
        for index in range(len(self.base.numbers())):
            formula = sizing.formula(self.names, [(sizes, numbers[index]) for sizes, numbers in samples])
            if formula is None:
                raise ProblemError("no formula fits all of its shapes")
            yield formula

    def strong_problem(self) -> ModuleProblem:
        """The problem with the hardest inputs whose result is finite, verified to reject wrong answers."""
        plan = _Plan(self)
        refusal = "its result is not finite"
        for width, ease in itertools.product(self.widths, range(valuing.CHOICES)):
            problem, side = plan.problem(ease, width)
            module = strength.ModuleUnderTest(problem, side)
            if not module.finite():
                continue
            if not module.determined():
                raise ProblemError("its result is not a function of its inputs")
            if not module.rounding_within_tolerance():
                refusal = "its tests would reject correct rounding"
                continue
            problem, side = module.without_idle_state()
            weakness = strength.ModuleUnderTest(problem, side).weakness()
            if weakness is None:
                return ModuleProblem(problem, side, {name: self.constants[name] for name in self.names})
            refusal = weakness
        raise ProblemError(refusal)


class _Plan:
    """The named buffers of a module, with shapes, generators and tolerances.

    `_shapes`, `_highs` and `_terms` are formulas for the three parts of `Facts.numbers`.
    """

    def __init__(self, analysis: _Analysis) -> None:
        self.analysis = analysis
        self.facts = analysis.base
        formulas = analysis.formulas()
        self._shapes = list(itertools.islice(formulas, len(self.facts.extents)))
        self._highs = list(itertools.islice(formulas, len(self.facts.highs)))
        self._terms = list(formulas)
        self._model, self._text_names = torch_module.build(analysis.code, MODEL, analysis.bench)
        self._used = set(analysis.names) | TAKEN
        parameters = forward_names(self._text_names)
        self.inputs = [
            self._name(parameters[i] if i < len(parameters) else f"in{i}")
            for i in range(len(self.facts.inputs))
        ]
        self.state = {path: self._name(path) for path in self.facts.state}
        single = len(self.facts.outputs) == 1
        self.outputs = [self._name("out" if single else f"out{i}") for i in range(len(self.facts.outputs))]
        self.inits = self._inits()

    def _name(self, path: str) -> str:
        """A unique, valid C++ name like the last part of a path, or like the whole path if that is used."""
        name = re.sub(r"\W", "_", path.rsplit(".", 1)[-1])
        if name in self._used or name in self.analysis.constants:
            name = re.sub(r"\W", "_", path)
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name

    def _inits(self) -> dict[str, Init]:
        """The generator of every input and parameter, and of every registered buffer that one fits."""
        inits, highs = dict[str, Init](), iter(self._highs)
        samples = self._sampled()
        for index, name in enumerate(self.inputs):
            if not isinstance(self.facts.inputs[index], Array):
                continue
            bounds_of_input = self.facts.bounds.get(index)
            bounds = (bounds_of_input[0], next(highs)) if bounds_of_input is not None else None
            init = valuing.input_init([arrays[index] for arrays in samples], bounds)
            if init is None:
                raise ProblemError(f"no generator produces values like those of {name}")
            inits[name] = init
        values = state_of(self._model)
        parameters = {path for path, _ in self._model.named_parameters()}
        written = self._written()
        for path, name in self.state.items():
            if path in written:
                continue
            init = valuing.state_init(values[path].detach().numpy())
            if init is None and path in parameters:
                raise ProblemError(f"no generator produces values like those of {path}")
            if init is not None:
                inits[name] = init
        return inits

    def _written(self) -> set[str]:
        """State that the forward pass changes, such as running averages; it does not become a buffer."""
        import torch

        model, names = torch_module.build(self.analysis.code, MODEL, self.analysis.tests[-1])
        before = {path: tensor.detach().clone() for path, tensor in state_of(model).items()}
        with torch_module.module_errors(MODEL), torch.no_grad():
            model(*names["get_inputs"]())
        return {path for path, tensor in state_of(model).items() if not torch.equal(tensor, before[path])}

    def _sampled(self) -> list[list[Any]]:
        """The inputs of several seeds as arrays, at sizes large enough to recognise their distribution."""
        import torch

        axes = max(len(array.shape) for array in self.facts.input_arrays)
        side = max(3, round(SAMPLED_ELEMENTS ** (1 / axes)))
        sizes = sizing.equal_sizes(self.analysis.names, self.analysis.bench, side, self.analysis.runs)
        rounds = []
        for seed in range(SAMPLES):
            torch.manual_seed(seed)
            _, names = torch_module.build(self.analysis.code, MODEL, sizes)
            with torch_module.module_errors("get_inputs"):
                inputs = names["get_inputs"]()
                rounds.append([value.numpy() if hasattr(value, "numpy") else value for value in inputs])
        return rounds

    def problem(self, ease: int, width: int = 1) -> tuple[Problem, Side]:
        """The problem and its side. `ease`: 0 for the hardest inputs, `CHOICES` - 1 for those of the file.

        `width`: a factor of the tolerance.
        """
        shapes = iter(self._shapes)
        buffers, scalars = dict[str, Buffer](), dict[str, Scalar]()
        for name, value in zip(self.inputs, self.facts.inputs, strict=True):
            if isinstance(value, Array):
                choices = valuing.harder(self.inits[name], self.facts.product)
                chosen = choices[min(ease, len(choices) - 1)]
                buffers[name] = Buffer(value.dtype, _next_shape(shapes, value), chosen)
            else:
                scalars[name] = Scalar("int32" if isinstance(value, int) else "float32", value)
        state: dict[str, str] = {}
        for path, array in self.facts.state.items():
            shape = _next_shape(shapes, array)
            if (name := self.state[path]) in self.inits:
                buffers[name] = Buffer(array.dtype, shape, self.inits[name])
                state[path] = name
        for name, array in zip(self.outputs, self.facts.outputs, strict=True):
            tolerance = self._tolerance(width) if is_float(array.dtype) else None
            buffers[name] = Buffer(array.dtype, _next_shape(shapes, array), role="out", tolerance=tolerance)
        call = Call(MODEL, tuple(self.inputs), tuple(self.outputs), state)
        loose = tuple(name for name in self.outputs if is_float(buffers[name].dtype))
        side = Side(self.analysis.code, (call,), nondeterministic=loose, language="torch")
        return Problem(Sizes(self.analysis.tests, self.analysis.bench), buffers, scalars), side

    def _tolerance(self, width: int) -> Tolerance:
        """The tolerance for the longest sum; very long sums over one tensor count as reduced in a tree."""
        facts = self.analysis.at(self.analysis.bench)
        lengths: dict[Expr, None] = {}  # in order of first occurrence
        for terms, number, reduced in zip(self._terms, facts.terms, facts.reduced, strict=True):
            as_tree = reduced and number > MANY_TERMS
            lengths[f"ceil_div({terms}, {PARTIAL_SUMS}) + {PARTIAL_SUMS}" if as_tree else terms] = None
        sums = [terms for terms in lengths if terms != 1]
        longest = f"max({', '.join(map(str, sums))})" if len(sums) > 1 else sums[0] if sums else 1
        # The bound grows with the square root of the terms.
        return Tolerance(terms=longest if width == 1 else f"({longest}) * {width * width}")


def _next_shape(shapes: Iterator[Expr], array: Array) -> tuple[Expr, ...]:
    """The next formulas of `shapes`, one per extent of the array."""
    return tuple(next(shapes) for _ in array.shape)
