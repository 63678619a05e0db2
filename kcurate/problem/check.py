"""Checks a candidate before anything runs: its problem and both plans, bound at every size.

Not covered: the code itself (`kcurate.judge.checks.static`) and errors that appear only at run time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kcurate.cuda_source import kernel_signatures
from kcurate.errors import ProblemError
from kcurate.problem.bind_once import bind_once
from kcurate.problem.calls import check_language
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs.contents import GENERATORS, check_fit, check_init, make
from kcurate.problem.inputs.draws import Array
from kcurate.problem.ops import BoundArg, BoundPointer, BoundPointers, LaunchOp, Program, flat
from kcurate.problem.outputs import logical_bytes, output_names
from kcurate.problem.tensor_maps import MAP_BYTES, BoundTensorMap
from kcurate.records import SIDES, Buffer, Candidate, Param, Problem, Promise, Side, Tolerance

# Size of a by-value parameter of a built-in type (CUDA C++ on 64-bit Linux).
SCALAR_BYTES: Mapping[str, int] = {
    "bool": 1, "char": 1, "short": 2, "int": 4, "unsigned": 4, "long": 8, "float": 4, "double": 8,
    "size_t": 8, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8, "int8_t": 1, "uint8_t": 1,
    "int16_t": 2, "uint16_t": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2, "longlong": 8,
}  # fmt: skip
# Generators without random numbers. A random generator with the seed of the problem's inputs could reproduce
# them, and so put the answer into a buffer that the side adds.
FIXED_KINDS = frozenset({"zeros", "ones", "constant", "arange", "formula", "sine", "addresses"})
# Marks an argument of eight zero bytes, which may be a number or a null pointer.
NULL = -8
# In a `varied` row the extremes differ by more than this share of the largest magnitude.
LEAST_SPREAD = 1e-3
# A buffer with shorter rows, such as points, counts as one row: two coordinates may be equal by chance.
SHORTEST_ROW = 8
# The values of a larger buffer are not looked through; test sizes are small.
MOST_PROMISED_BYTES = 1 << 28
_VECTOR = re.compile(r"u?(char|short|int|long|longlong|float|double)([1-4])")


@dataclass(frozen=True)
class Issue:
    """One error and its place, such as `slow.plan[0].args[3]`."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check(candidate: Candidate) -> tuple[Issue, ...]:
    """All errors in the problem and the plans; empty if they can be run."""
    if candidate.problem is None:
        return (Issue("problem", "the candidate has no problem"),)
    issues = [*_check_origin(candidate), *_check_problem(candidate.problem), *_check_sides(candidate)]
    return tuple(dict.fromkeys(issues))


def _check_origin(candidate: Candidate) -> Iterator[Issue]:
    """A side made by a rule or model is judged more strictly, so the record must say which side that is."""
    if candidate.origin.kind in ("rule", "model") and candidate.origin.made is None:
        yield Issue("origin.made", f"a {candidate.origin.kind} made one of the sides: slow or fast?")


def _check_problem(problem: Problem) -> Iterator[Issue]:
    outputs = output_names(problem)
    if not outputs:
        yield Issue("problem.buffers", "none has the role out or inout")
    if not problem.sizes.test:
        yield Issue("problem.sizes.test", "is empty")
    for index, sizes in enumerate(problem.sizes.all):
        if set(sizes) != set(problem.sizes.headline):
            place = f"test[{index}]" if index < len(problem.sizes.test) else "bench"
            yield Issue(f"problem.sizes.{place}", "does not name the same sizes as the headline")
    yield from _check_bench(problem)
    yield from _check_records(problem, outputs)
    for name, buffer in problem.buffers.items():
        valid = buffer.tolerance.valid if buffer.tolerance else None
        if valid is not None and (valid not in outputs or "int" not in problem.buffers[valid].dtype):
            yield Issue(f"problem.buffers.{name}.tolerance.valid", f"{valid!r} is not an integer output")
        yield from _check_terms(problem, name)
        yield from _check_init(problem, buffer, f"problem.buffers.{name}")
        yield from _check_promises(problem, name)
    for name in sorted(set(problem.scalars) & set(problem.buffers)):
        yield Issue(f"problem.scalars.{name}", "a buffer has the same name")
    for name in sorted(set(problem.sizes.headline) & set(problem.buffers)):
        yield Issue(f"problem.sizes.{name}", "a buffer has the same name")


def _check_bench(problem: Problem) -> Iterator[Issue]:
    """Names of bench sizes must differ, and at most one may be the headline."""
    named = () if isinstance(problem.sizes.bench, Mapping) else problem.sizes.bench
    for name, count in Counter(bench.name for bench in named).items():
        if count > 1:
            yield Issue("problem.sizes.bench", f"{count} sizes are named {name!r}")
    if sum(bench.headline for bench in named) > 1:
        yield Issue("problem.sizes.bench", "more than one size is the headline")


def _check_records(problem: Problem, outputs: tuple[str, ...]) -> Iterator[Issue]:
    """Members of a record must be outputs with the same number of rows and the same order."""
    members = Counter(name for record in problem.records for name in record)
    for index, record in enumerate(problem.records):
        where = f"problem.records[{index}]"
        if len(record) < 2:
            yield Issue(where, "names fewer than two outputs")
        strange = [name for name in record if name not in outputs]
        for name in strange:
            yield Issue(where, f"{name!r} is not an output")
        for name in sorted({name for name in record if members[name] > 1}):
            yield Issue(where, f"{name!r} is named {members[name]} times in records")
        if not strange:
            yield from _check_members(problem, record, where)


def _check_members(problem: Problem, record: tuple[str, ...], where: str) -> Iterator[Issue]:
    for name in record[1:]:
        first, other = (problem.buffers[member] for member in (record[0], name))
        rules = [buffer.tolerance or Tolerance() for buffer in (first, other)]
        for field in ("order", "valid"):
            values = [getattr(rule, field) for rule in rules]
            if values[0] != values[1]:
                texts = " and ".join(map(repr, values))
                yield Issue(where, f"{record[0]!r} and {name!r} have different tolerances: {field} {texts}")
        if not (first.shape and other.shape):
            yield Issue(where, f"{record[0]!r} or {name!r} has no axes")
            continue
        for sizes in problem.sizes.all:
            try:
                lengths = [evaluate(buffer.shape[0], sizes) for buffer in (first, other)]
            except ProblemError:
                break  # binding the plans reports it
            if lengths[0] != lengths[1]:
                text = f"{record[0]!r} has {lengths[0]} rows and {name!r} {lengths[1]} at sizes {dict(sizes)}"
                yield Issue(where, text)
                break


def _check_init(problem: Problem, buffer: Buffer, where: str) -> Iterator[Issue]:
    if buffer.init is None:
        return
    if buffer.role in ("out", "scratch"):
        yield Issue(f"{where}.init", f"a buffer with role {buffer.role} has no initial values")
    for sizes in problem.sizes.all:
        try:
            check_init(buffer.init, sizes)
            check_fit(buffer, sizes)
        except ProblemError as error:
            yield Issue(f"{where}.init", error.what)
            return


def _check_promises(problem: Problem, name: str) -> Iterator[Issue]:
    """The values that a buffer's generator makes must keep the buffer's promises."""
    buffer, where = problem.buffers[name], f"problem.buffers.{name}.promises"
    if buffer.promises and (buffer.role not in ("in", "inout") or buffer.init is None):
        yield Issue(where, f"a buffer with role {buffer.role} and no init has no values to promise")
        return
    for sizes in problem.sizes.test if buffer.promises else ():
        try:
            size_bytes = logical_bytes(buffer, sizes)
            if size_bytes > MOST_PROMISED_BYTES:
                yield Issue(where, f"{size_bytes} bytes at a test size, more than {MOST_PROMISED_BYTES}")
                return
            values = make(name, buffer, sizes, 0)
        except ProblemError:  # `_check_init` reports it
            return
        for promise in buffer.promises:
            if not keeps(promise, values):
                kind = buffer.init.kind if buffer.init else "zeros"
                yield Issue(
                    where, f"init {kind} does not keep the promise {promise!r} at sizes {dict(sizes)}"
                )
                return


def keeps(promise: Promise, values: Array) -> bool:
    """Whether an input, of any shape and dtype, keeps a promise, in each row of its last axis."""
    if not values.size:
        return True
    return bool(_KEEPS[promise](values.reshape(-1, values.shape[-1] if values.ndim else 1)))


def _varied(rows: Array) -> bool:
    reals = (rows if rows.shape[1] >= SHORTEST_ROW else rows.reshape(1, -1)).astype(np.float64)
    if reals.size < 2:
        return True
    least, most = reals.min(axis=1), reals.max(axis=1)
    return bool((most - least > LEAST_SPREAD * np.maximum(np.abs(least), np.abs(most))).all())


def _distinct(rows: Array) -> bool:
    ordered = np.sort(rows, axis=1)
    return bool((ordered[:, 1:] != ordered[:, :-1]).all())


_KEEPS: Mapping[Promise, Callable[[Array], bool]] = {
    "finite": lambda rows: bool(np.isfinite(rows.astype(np.float64)).all()),
    "positive": lambda rows: bool((rows > 0).all()),
    "nonnegative": lambda rows: bool((rows >= 0).all()),
    "nonzero": lambda rows: bool((rows != 0).all()),
    "sorted": lambda rows: bool((rows[:, 1:] >= rows[:, :-1]).all()),
    "distinct": _distinct,
    "varied": _varied,
}


def _check_terms(problem: Problem, name: str) -> Iterator[Issue]:
    tolerance = problem.buffers[name].tolerance
    if tolerance is None:
        return
    try:
        evaluate(tolerance.terms, problem.sizes.headline)
    except ProblemError as error:
        yield Issue(f"problem.buffers.{name}.tolerance.terms", error.what)


def _check_sides(candidate: Candidate) -> Iterator[Issue]:
    problem = candidate.problem
    assert problem is not None
    for side_name in SIDES:
        side: Side = getattr(candidate, side_name)
        for name in set(side.buffers) & set(problem.buffers):
            yield Issue(f"{side_name}.buffers.{name}", "the problem has a buffer of that name")
        for name in sorted(set(side.views) - set(problem.buffers)):
            yield Issue(f"{side_name}.views.{name}", "there is no such buffer")
        if side.views and candidate.origin.kind == "model" and candidate.origin.made == side_name:
            yield Issue(f"{side_name}.views", "a side made by a model must not have views")
        for message in check_language(candidate, side_name):
            yield Issue(side_name, message)
        yield from _check_own_buffers(problem, side, side_name)
        yield from _check_plan(problem, side, side_name)


def _check_plan(problem: Problem, side: Side, side_name: str) -> Iterator[Issue]:
    """Bind the plan at every size setting, up to the first that fails."""
    signatures = kernel_signatures(side.code.encode()) if side.language == "cuda" else None
    for sizes in problem.sizes.all:
        try:
            program = bind_once(problem, side, sizes, where=f"{side_name}.plan")
        except ProblemError as error:
            where = error.where or f"{side_name}.plan"
            if where == "buffers":
                where = f"{side_name}.buffers"
            elif where.startswith("buffers."):
                owner = side_name if where.removeprefix("buffers.") in side.buffers else "problem"
                where = f"{owner}.{where}"
            yield Issue(where, f"{error.what} at sizes {dict(sizes)}")
            return
        if signatures is not None:
            yield from _check_program(program, signatures, side_name)


def _check_own_buffers(problem: Problem, side: Side, side_name: str) -> Iterator[Issue]:
    """Buffers that a side adds must not be outputs, come from files or hold random numbers."""
    for name, buffer in side.buffers.items():
        where = f"{side_name}.buffers.{name}"
        if buffer.role not in ("in", "scratch"):
            yield Issue(f"{where}.role", "a side's own buffer must be `in` or `scratch`")
        if buffer.init is not None and buffer.init.kind == "file":
            yield Issue(f"{where}.init", "a side's own buffer must not come from a file")
        elif buffer.init is not None and buffer.init.kind in GENERATORS.keys() - FIXED_KINDS:
            yield Issue(f"{where}.init", "a side's own buffer must not hold random numbers")
        yield from _check_init(problem, buffer, where)


def _check_program(
    program: Program, signatures: Mapping[str, tuple[Param, ...]], side: str
) -> Iterator[Issue]:
    launches = [op for op in flat(program.ops) if isinstance(op, LaunchOp)]
    if not launches:
        yield Issue(f"{side}.plan", "launches nothing")
    # Only kernel and argument sizes matter here, and a long plan has few combinations of them.
    for kernel, sizes in dict.fromkeys((op.kernel, tuple(map(_argument_bytes, op.args))) for op in launches):
        if kernel not in signatures:
            yield Issue(f"{side}.plan", f"the code has no kernel {kernel!r}")
        else:
            yield from _check_arguments(f"{side}.plan.{kernel}", signatures[kernel], sizes)


def _argument_bytes(argument: BoundArg) -> int | None:
    """Bytes of a value; None for a pointer, `NULL` for eight zero bytes."""
    if isinstance(argument, BoundPointers):
        return len(argument.data)
    if isinstance(argument, BoundTensorMap):
        return MAP_BYTES
    if isinstance(argument, BoundPointer):
        return None
    return NULL if argument.data == bytes(-NULL) else len(argument.data)


def _check_arguments(where: str, params: tuple[Param, ...], sizes: tuple[int | None, ...]) -> Iterator[Issue]:
    if len(params) != len(sizes):
        yield Issue(where, f"{len(sizes)} arguments for {len(params)} parameters")
        return
    for index, (param, passed) in enumerate(zip(params, sizes, strict=True)):
        place = f"{where}.args[{index}]"
        subject = f"the parameter {param.name!r} ({param.type}) takes"
        if passed == NULL:
            passed = None if param.pointer else -NULL
        if param.pointer != (passed is None):
            yield Issue(place, f"{subject} {'a pointer' if param.pointer else 'a value'}")
        elif passed is not None:
            size = scalar_bytes_of(param.type)
            if size is not None and size != passed:
                yield Issue(place, f"{subject} {size} bytes, not {passed}")


def scalar_bytes_of(type_text: str) -> int | None:
    """Bytes of a by-value parameter of a built-in type; None for any other type (structs, template names)."""
    words = [word for word in type_text.split() if word not in ("const", "volatile", "signed", "unsigned")]
    if "long" in words and set(words) <= {"long", "int"}:
        return 8
    if words in (["short", "int"], []):
        return 2 if words else SCALAR_BYTES["unsigned"] if "unsigned" in type_text else None
    if len(words) != 1:
        return None
    vector = _VECTOR.fullmatch(words[0])
    if vector:
        return SCALAR_BYTES[vector[1]] * int(vector[2])
    return SCALAR_BYTES.get(words[0])
