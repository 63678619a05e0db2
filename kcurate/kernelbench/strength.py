"""Whether the problem of a PyTorch module tells correct answers from wrong ones, by the judge's own rules.

The module runs on the emulator, as the judge runs a reference. Besides the judge's negative controls at the
test sizes, results that reduce many numbers to few are checked at the bench size, where a constant may be
within the tolerance. Not covered: the controls (`kcurate.judge.negative_controls`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kcurate.backends import torch_module
from kcurate.backends.base import CompileFailure
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.backends.torch_module import TorchModule, compile_text
from kcurate.errors import ProblemError
from kcurate.judge import negative_controls, trials
from kcurate.judge.agreement import differs
from kcurate.judge.trials import Trial
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.problem import program
from kcurate.problem.compare import compare
from kcurate.problem.dtypes import is_float
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs import contents
from kcurate.problem.ops import CallOp
from kcurate.problem.outputs import logical_bytes, output_names
from kcurate.records import Call, Problem, Side

SEED = 20260801
# If the inputs have this many times the bytes of the results, these are means or losses over many elements.
SUMMED_UP = 1 << 20
# A constant answer is tried on the results of this many different inputs.
BENCH_SEEDS = 5
# The share of the tolerance that the module's own rounding may use, so that an answer can use the rest.
ROUNDING_SHARE = 0.25
POISONS = (0x7FC0DEAD, 0x12345679)

Outputs = Mapping[str, Any]


class ModuleUnderTest:
    """One module, run on one problem. `exact`: a side that computes it in float64 (None: the module itself,
    on parameters and inputs in float64)."""

    def __init__(self, problem: Problem, side: Side, exact: Side | None = None) -> None:
        module = compile_text(side.code)
        if isinstance(module, CompileFailure):
            raise ProblemError(module.log)
        self.problem, self.side, self._exact = problem, side, exact or side
        self._inputs = dict[tuple[str, int], dict[str, Any]]()
        self._module = TorchModule(module)
        self.trials = list(trials.trials(problem, SEED))

    @functools.cached_property
    def expected(self) -> dict[str, Outputs]:
        """The reference's outputs, by trial."""
        return {trial.slot: self._outputs(trial) for trial in self.trials}

    def values(self, trial: Trial) -> dict[str, Any]:
        """The inputs of a trial; those of the problem's own trials are made once."""
        key = trial.slot, trial.seed
        if key in self._inputs:
            return self._inputs[key]
        values = contents.generate(self.problem, self.side, trial.sizes, trial.seed, trial.variation)
        if trial in self.trials:
            self._inputs[key] = values
        return values

    def _outputs(
        self, trial: Trial, values: Mapping[str, Any] | None = None, poison: int = POISONS[0]
    ) -> Outputs:
        """The module's outputs.

        Raises:
            ProblemError: it fails, or writes to its inputs.
        """
        bound = program.bind(self.problem, self.side, trial.sizes)
        with contextlib.closing(EmulatorDevice()) as device:
            prepared = DeviceProgram(
                device, self._module, bound, values if values is not None else self.values(trial)
            )
            prepared.reset(poison)
            prepared.run()
            prepared.finish()
            harmed = prepared.integrity()
            if harmed:
                raise ProblemError(f"the module {harmed[0]}")
            return prepared.outputs()

    def finite(self) -> bool:
        """Whether every trial's result is finite."""
        return all(
            np.isfinite(array).all()
            for outputs in self.expected.values()
            for array in outputs.values()
            if array.dtype.kind == "f"
        )

    def determined(self) -> bool:
        """Whether the result depends only on the inputs."""
        trial = self.trials[0]
        again = self._outputs(trial, poison=POISONS[1])
        names = output_names(self.problem)
        expected = self.expected[trial.slot]
        return not any(differs(self.problem, trial.sizes, name, expected, again) for name in names)

    def rounding_within_tolerance(self) -> bool:
        """Whether the module's rounding, measured against float64, stays well within the tolerance.

        Also true if the module does not run in float64.
        """
        for trial in self.trials:
            try:
                exact = self._in_float64(trial)
            except ProblemError:
                return True
            for name, array in exact.items():
                buffer = self.problem.buffers[name]
                terms = evaluate(buffer.tolerance.terms, trial.sizes) if buffer.tolerance else 1
                got = self.expected[trial.slot][name]
                if is_float(buffer.dtype):
                    difference = compare(array, got, buffer.dtype, buffer.tolerance, terms=terms)
                    if not difference.ok or difference.worst > ROUNDING_SHARE:
                        return False
        return True

    def _in_float64(self, trial: Trial) -> Outputs:
        import torch

        bound = program.bind(self.problem, self.side, trial.sizes)
        (call,) = bound.ops
        assert isinstance(call, CallOp)

        def wide(name: str) -> Any:
            array = values[name]
            floating = is_float(self.problem.buffers[name].dtype)
            return torch.from_numpy(array.astype(np.float64) if floating else array)

        values = self.values(trial)
        model, _ = torch_module.build(self._exact.code, call.call, trial.sizes)
        with torch_module.module_errors(call.call), torch.no_grad():
            model = model.double()
            for path, name in call.state.items():
                torch_module.put_state(model, path, wide(name))
            results = torch_module.flat(model(*(wide(a) if isinstance(a, str) else a for a in call.args)))
            return {name: result.numpy() for name, result in zip(call.to, results, strict=True)}

    def without_idle_state(self) -> tuple[Problem, Side]:
        """The problem without state that does not affect the result."""
        (call,) = self.side.plan
        assert isinstance(call, Call)
        trial = self.trials[0]
        values = self.values(trial)
        other = self.values(replace(trial, seed=trial.seed ^ 0x5EED))
        idle = {
            name
            for name in call.state.values()
            if _equal(self._outputs(trial, {**values, name: other[name]}), self.expected[trial.slot])
        }
        state = {path: name for path, name in call.state.items() if name not in idle}
        buffers = {name: buffer for name, buffer in self.problem.buffers.items() if name not in idle}
        return replace(self.problem, buffers=buffers), replace(self.side, plan=(replace(call, state=state),))

    def idle_input(self) -> str | None:
        """An input that may be anything at every test size; None if there is none."""
        trials = [trial for trial in self.trials if trial.variation == "nominal"]
        for name in self.values(trials[0]):
            if not any(self._matters(name, trial) for trial in trials):
                return name
        return None

    def _matters(self, name: str, trial: Trial) -> bool:
        other = self.values(replace(trial, seed=trial.seed ^ 0x5EED))
        changed = self._outputs(trial, {**self.values(trial), name: other[name]})
        expected = self.expected[trial.slot]
        return any(differs(self.problem, trial.sizes, output, expected, changed) for output in expected)

    def weakness(self) -> str | None:
        """Why the problem is too weak; None if it is strong."""
        weakness = negative_controls.weakness(self.problem, self.trials, self.expected, self._outputs_if_any)
        if weakness is not None:
            return f"its tests would accept {weakness}"
        return self._weakness_at_bench()

    def _outputs_if_any(self, trial: Trial) -> Outputs | None:
        """The module's outputs; None if it fails, as it may on the inputs of a negative control."""
        try:
            return self._outputs(trial)
        except ProblemError:
            return None

    def _weakness_at_bench(self) -> str | None:
        sizes = self.problem.sizes.headline
        by_role = {"in": 0, "out": 0}
        for buffer in self.problem.buffers.values():
            by_role[buffer.role] += logical_bytes(buffer, sizes)
        if by_role["out"] * SUMMED_UP > by_role["in"]:
            return None
        (trial, *_) = trials.timed_trials(self.problem, SEED)
        results = [self._outputs(replace(trial, seed=SEED + index)) for index in range(BENCH_SEEDS)]
        for index, expected in enumerate(results):
            others = results[:index] + results[index + 1 :]
            means = {n: np.mean([outputs[n].mean(dtype=np.float64) for outputs in others]) for n in expected}
            for wrong_answer, constants in (("zeros", dict.fromkeys(expected, 0.0)), ("a constant", means)):
                wrong = {name: np.full_like(array, constants[name]) for name, array in expected.items()}
                if not any(differs(self.problem, sizes, name, expected, wrong) for name in wrong):
                    return f"at the bench size its tests would accept {wrong_answer}"
        return None


def _equal(first: Outputs, other: Outputs) -> bool:
    return all(np.array_equal(first[name], other[name], equal_nan=True) for name in first)
