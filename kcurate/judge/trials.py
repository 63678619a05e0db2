"""The trials of a problem: the sizes and inputs that both sides run on.

Each test size runs with nominal inputs and the other variations of the problem's generators: structured
inputs at the first and the largest size, paths at the first. The first size also runs with another seed, and
the first and the largest with literals of one side's code as inputs. On a GPU, the bench size runs with
structured inputs, with large and with equal integers, and with the inputs that are timed. Not covered: the
inputs (`kcurate.problem.inputs.contents`), what outputs must show (`kcurate.judge.verifying`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcurate.core import codec
from kcurate.judge.agreement import Outputs, identical
from kcurate.judge.checks.lexer import numbers
from kcurate.judge.timing.blocks import INPUT_SETS
from kcurate.judge.workers.requests import Generate
from kcurate.problem.inputs.contents import (
    VARIATIONS,
    generate,
    integer_variations,
    most_terms,
    takes_literals,
    variations,
    varies,
)
from kcurate.problem.outputs import logical_bytes
from kcurate.records import BenchSize, Problem, Side

# The most literals that a trial puts into its inputs, of those in only one side's code.
MOST_LITERALS = 256
# How many times a side runs a nominal trial; all runs must agree.
REPEATS = 3


@dataclass(frozen=True)
class Trial:
    """One set of sizes and inputs that both sides run on; `slot` names it in the workers."""

    slot: str
    sizes: Mapping[str, int]
    seed: int
    variation: str

    @property
    def request(self) -> Generate:
        """The request to a worker to generate this trial's inputs."""
        return Generate(self.slot, self.sizes, self.seed, self.variation, self.at_bench)

    @property
    def runs(self) -> int:
        """How many times a side runs: `REPEATS` times if nominal or structured, else once.

        Once also for timed inputs, since every timed run is compared with that one.
        """
        return REPEATS if self.variation in ("nominal", "structured") and not self.timed else 1

    @property
    def at_bench(self) -> bool:
        """Whether the trial is at a bench size, where inputs and outputs stay on the device."""
        return self.slot.startswith("bench")

    @property
    def timed(self) -> bool:
        """Whether the trial's inputs are timed."""
        return self.slot.removeprefix("bench").isdigit()

    @property
    def text(self) -> str:
        """The sizes and kind of inputs, for rulings."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{sizes}; {self.variation.partition(':')[0]} inputs"


class Tried:
    """Trials that ran, with the reference's outputs by slot; inputs are generated on demand."""

    def __init__(self, problem: Problem, trials: Sequence[Trial], expected: Mapping[str, Outputs]) -> None:
        self.problem = problem
        self.trials = list(trials)
        self.expected = dict(expected)
        self._inputs: dict[str, Outputs] = {}

    def add(self, trial: Trial, outputs: Outputs) -> None:
        """Add a trial and the reference's outputs."""
        self.trials.append(trial)
        self.expected[trial.slot] = outputs

    def inputs(self, trial: Trial) -> Outputs:
        """The contents of the problem's `in` and `inout` buffers."""
        if trial.slot not in self._inputs:
            arrays = generate(self.problem, None, trial.sizes, trial.seed, trial.variation)
            self._inputs[trial.slot] = arrays
        return self._inputs[trial.slot]

    def other(self, trial: Trial) -> Trial | None:
        """Another trial of the same sizes with different inputs; None if there is none."""
        at = self.trials.index(trial)
        for other in self.trials[at + 1 :] + self.trials[:at]:
            if other.sizes == trial.sizes and any(
                not identical(values, self.inputs(other)[name]) for name, values in self.inputs(trial).items()
            ):
                return other
        return None


def trials(problem: Problem, seed: int) -> Iterator[Trial]:
    """The trials at the test sizes; their seeds derive from the case's secret seed. That of the last is even,
    so that its floats are as drawn, those of the others are odd."""
    rng = random.Random(seed)
    largest = largest_test(problem)
    for index, sizes in enumerate(problem.sizes.test):
        for variation in variations(problem):
            if (variation == "structured" and index not in (0, largest)) or (variation == "path" and index):
                continue
            yield Trial(f"test{index}-{variation}", sizes, rng.getrandbits(48) | 1, variation)
    if problem.sizes.test:
        yield Trial("test0-again", problem.sizes.test[0], rng.getrandbits(47) << 1, VARIATIONS[0])


def literal_trials(problem: Problem, sides: Sequence[Side], seed: int) -> Iterator[Trial]:
    """Trials at the first and the largest test size whose inputs hold what one side alone names.

    A number in the text or plan of one side and not of the other may be a value that it treats differently,
    and that no generator is likely to draw.
    """
    apart = frozenset[int | float]()
    for side in sides:
        apart ^= numbers(f"{side.code}\n{codec.canonical_json(codec.to_data(side.plan)).decode()}")
    if not apart or not any(map(takes_literals, problem.buffers.values())):
        return
    rng = random.Random(seed ^ 0x117)
    for index in sorted({0, largest_test(problem)} if problem.sizes.test else ()):
        chosen = rng.sample(sorted(apart), min(len(apart), MOST_LITERALS))
        variation = f"literals:{';'.join(map(repr, chosen))}"
        yield Trial(f"test{index}-literals", problem.sizes.test[index], rng.getrandbits(48), variation)


def largest_test(problem: Problem) -> int:
    """The index of the test size where an output accumulates the most terms, or else has the most inputs."""

    def extent(index: int) -> tuple[int, int]:
        sizes = problem.sizes.test[index]
        inputs = (b for b in problem.buffers.values() if b.role in ("in", "inout"))
        return most_terms(problem, sizes), sum(logical_bytes(buffer, sizes) for buffer in inputs)

    return max(range(len(problem.sizes.test)), key=extent, default=0)


def bench_trials(problem: Problem, seed: int, size: BenchSize | None = None) -> list[Trial]:
    """The trials at a bench size (None: the headline) that are not timed: structured inputs, if any.

    At the headline, trials with large and with equal integers come first: only at this length do they make
    narrow counters overflow.
    """
    rng = random.Random(seed ^ 0x1A7)
    sizes, names = problem.sizes.headline, integer_variations(problem) if size is None else ()
    integers = [Trial(f"bench-{name}", sizes, rng.getrandbits(48), name) for name in names]
    return [*integers, *([at_bench(problem, seed, size)] if varies(problem) else [])]


def at_bench(problem: Problem, seed: int, size: BenchSize | None = None) -> Trial:
    """The trial at a bench size on which spoiled inputs are based: structured if possible, else nominal."""
    variation = "structured" if varies(problem) else "nominal"
    rng = random.Random(f"{seed ^ 0xB19} {size.name if size else ''}")
    sizes = size.sizes if size else problem.sizes.headline
    return Trial(f"bench-{variation}", sizes, rng.getrandbits(48), variation)


def largest(problem: Problem, tried: Sequence[Trial]) -> Trial:
    """The trial at the largest test size on which spoiled inputs are based: structured if possible."""
    sizes = problem.sizes.test[largest_test(problem)]
    variation = "structured" if varies(problem) else "nominal"
    return next(trial for trial in tried if trial.sizes == sizes and trial.variation == variation)


def timed_trials(problem: Problem, seed: int, size: BenchSize | None = None) -> list[Trial]:
    """The trials at a bench size (None: the headline) that are timed; their seeds alternate in parity."""
    rng = random.Random(f"{seed} {size.name if size else ''}")
    sizes, first_seed = size.sizes if size else problem.sizes.headline, rng.getrandbits(48)
    seeds = [first_seed, *(rng.getrandbits(47) << 1 | (first_seed + i) & 1 for i in range(1, INPUT_SETS))]
    return [Trial(f"bench{i}", sizes, seeds[i], VARIATIONS[0]) for i in range(INPUT_SETS)]
