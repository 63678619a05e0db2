"""Compares what was read here with a compiler's reading of the same text, and takes instances from it.

A compiler goes on behind an error with a type or a number of its own, so of a text with errors it may tell
what is not so. Not covered: running the compiler (`kcurate.extract.second_reader`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.instantiations import MAX_FOUND, TYPES, Instantiations
from kcurate.cuda_source.parse.items import Item, innermost
from kcurate.cuda_source.preprocess.macros import MARK
from kcurate.cuda_source.text.brackets import split_arguments

_UNNAMED = "(anonymous namespace)::"
# What clang takes for an unknown type: `int` in a typedef, `void` in a cast of a pointer.
_INSTEAD = re.compile(rb"(?<!unsigned )\b(?:int|void)\b")
_ENUMERATOR = re.compile(rb"\benum\b[^{};]*\{[^{}]*\Z")
_NUMBER = re.compile(rb"(?<!\w)\d|\btrue\b|\bfalse\b")
# How clang's message on a header that is missing ends: what is unknown then has errors of its own.
_NOT_FOUND = "file not found"
# Which of several functions an expression means, only its use tells.
_OVERLOADED = "overloaded function"


@dataclass(frozen=True)
class SeenKernel:
    """The definition of a kernel: its name and bytes in the text."""

    name: str
    start: int
    end: int
    template: bool


@dataclass(frozen=True)
class SeenInstance:
    """An instance that the code uses: a byte of its template, an id, its arguments as at file scope."""

    name: str
    at: int
    id: str
    arguments: str


@dataclass(frozen=True)
class Reading:
    """A compiler's reading of a text, and of expressions behind it.

    `reached`: where each kernel begins, and what it means (and what that means), in order.
    `stated` and `refused`: by number, the id of the instance that an expression means, or why it means none.
    `errors`: at which byte of the text (-1: in a header), and why. `failed`: why there is no reading.
    """

    kernels: tuple[SeenKernel, ...] = ()
    instances: tuple[SeenInstance, ...] = ()
    stated: tuple[tuple[int, str], ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    errors: tuple[tuple[int, str], ...] = ()
    reached: tuple[tuple[int, tuple[int, ...]], ...] = ()
    failed: str | None = None


# Reads a text, and name expressions such as `wave::step<float, 4>` as if they stood behind it.
SecondReader = Callable[[bytes, Sequence[str]], Reading]


class Seen(StrEnum):
    """Who sees a kernel, or an instance of one."""

    KERNEL = "kernel"
    KERNEL_MISSED = "kernel_only_here"
    KERNEL_ADDED = "kernel_only_compiler"
    INSTANCE = "instance"
    INSTANCE_MISSED = "instance_only_here"
    INSTANCE_ADDED = "instance_only_compiler"
    TAKEN = "instance_taken"
    FAILED = "not_read"


AGREED = frozenset((Seen.KERNEL, Seen.INSTANCE))


@dataclass(frozen=True)
class Finding:
    """One kernel, or instance of it (`what`), and who sees it; `at` is a byte of the unit's text."""

    seen: Seen
    at: int
    kernel: str = ""
    what: str = ""
    path: str = ""
    line: int = 0


@dataclass
class Compared:
    """The name expressions of the kernel templates, by where these start, and what two readings gave.

    `guessed`: where types in them are guesses. `reached`: where what a kernel means begins.
    """

    expressions: dict[int, tuple[str, ...]]
    guessed: frozenset[int]
    findings: list[Finding] = field(default_factory=list)
    reached: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def of(self, kernel: Item) -> tuple[str, ...]:
        """The name expressions of a kernel; empty: it is no template, or none was found."""
        return self.expressions.get(kernel.start, ())


def compare(
    kernels: Sequence[Item], here: Instantiations, second: SecondReader | None, text: bytes, shift: int
) -> Compared:
    """The instances of the kernel templates: those that were found here, else what `second` is sure of.

    `text` is what it reads, which begins at byte `shift` of the unit.
    """
    expressions = {item.start: here.of(item) for item in kernels if item.template}
    compared = Compared(expressions, here.guessed)
    if second is None or not (kernels or MARK.search(text)):
        return compared
    # What is guessed may make the text itself look wrong.
    sought = (item for item in kernels if item.start not in here.guessed)
    asked = [(item.start, expression) for item in sought for expression in compared.of(item)]
    reading = second(text, [expression for _, expression in asked])
    if reading.failed is not None:
        compared.findings.append(Finding(Seen.FAILED, shift, what=reading.failed))
        return compared
    comparison = _Comparison(compared, here, reading, shift, _sure(here, reading, shift))
    numbers = grouped((start, number) for number, (start, _) in enumerate(asked))
    known: set[SeenKernel] = set()
    for item in kernels:
        name = item.names[-1].decode("latin-1")
        same = [each for each in reading.kernels if each.name == name and _overlaps(each, item, shift)]
        known.update(same)
        compared.findings.append(Finding(Seen.KERNEL if same else Seen.KERNEL_MISSED, item.start, name))
        if any(each.template for each in same):
            expressions_of = {number: asked[number][1] for number in numbers.get(item.start, ())}
            comparison.instances(item, name, expressions_of)
    compared.reached.update(_reached(kernels, compared.findings, here, reading, shift))
    added = [each for each in reading.kernels if each not in known]
    compared.findings += [Finding(Seen.KERNEL_ADDED, each.start + shift, each.name) for each in added]
    return compared


def _reached(
    kernels: Sequence[Item], findings: Sequence[Finding], here: Instantiations, reading: Reading, shift: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Where what a kernel means begins, if the compiler has all instances and no error in it.

    It could else mean another overload in another instance, or behind an error.
    """
    seen = {(finding.at, finding.seen) for finding in findings}
    errors = {at + shift for at, _ in reading.errors if at >= 0}
    wrong = {item for at in errors if (item := innermost(here.parsed.items, at)) is not None}
    for start, ats in reading.reached:
        item = innermost(kernels, start + shift)
        if item is None or (item.start, Seen.INSTANCE_MISSED) in seen:
            continue
        if item.template and not seen & {(item.start, Seen.INSTANCE), (item.start, Seen.TAKEN)}:
            continue
        reached = tuple(at + shift for at in ats)
        if not any(each.reached(reached) for each in wrong):
            yield item.start, reached


@dataclass(frozen=True)
class _Comparison:
    compared: Compared
    here: Instantiations
    reading: Reading
    shift: int
    sure: Callable[[bytes], bool]

    def instances(self, item: Item, name: str, asked: Mapping[int, str]) -> None:
        """Compare the instances of a kernel template, and take the compiler's where there are none."""
        stated, refused = dict(self.reading.stated), dict(self.reading.refused)
        if any(_OVERLOADED in refused.get(number, "") for number in asked):
            return
        theirs = {
            each.id: each.arguments.replace(_UNNAMED, "") for each in self.reading.instances
            if each.name == name and item.start <= each.at + self.shift < item.end
        }  # fmt: skip
        ours = {stated.get(number, expression): number for number, expression in asked.items()}
        findings = [
            Finding(Seen.INSTANCE if id_ in theirs else Seen.INSTANCE_MISSED, item.start, name, asked[number])
            for id_, number in ours.items()
        ]
        taken: tuple[str, ...] = ()
        # In a text that the compiler understands, what it refuses is no instance.
        refuses = not self.reading.errors and not any(number in stated for number in ours.values())
        if not ours or refuses:
            written = [_arguments(each.encode()) for each in theirs.values()]
            taken = self.here.stated(item, [each for each in written if all(map(self.sure, each))])
        if taken:
            findings += [Finding(Seen.TAKEN, item.start, name, each) for each in taken]
            self.compared.expressions[item.start] = taken
            self.compared.guessed -= {item.start}
        elif len(ours) < MAX_FOUND:
            added = (arguments for id_, arguments in theirs.items() if id_ not in ours)
            findings += [Finding(Seen.INSTANCE_ADDED, item.start, name, arguments) for arguments in added]
        self.compared.findings += findings


def _arguments(text: bytes) -> tuple[bytes, ...]:
    """Template arguments as they can be stated; the compiler writes those of a pack as `<float, int>`."""
    arguments = split_arguments(text, angles=True)
    packs = [split_arguments(each[1:-1], angles=True) if each[:1] == b"<" else [each] for each in arguments]
    return tuple(each for pack in packs for each in pack)


def _overlaps(kernel: SeenKernel, item: Item, shift: int) -> bool:
    return kernel.start + shift < item.end and kernel.end + shift > item.start


def _sure(here: Instantiations, reading: Reading, shift: int) -> Callable[[bytes], bool]:
    """Whether a template argument is not something that the compiler took instead of what it did not know."""
    errors = [at + shift if at >= 0 else at for at, why in reading.errors if not why.endswith(_NOT_FOUND)]
    numbers_too = any(_makes_numbers_wrong(here, at) for at in errors)

    def sure(argument: bytes) -> bool:
        unknown = bool(errors) and _INSTEAD.search(argument)
        return not (unknown or (numbers_too and _NUMBER.search(argument)))

    return sure


def _makes_numbers_wrong(here: Instantiations, at: int) -> bool:
    """Whether behind an error at a byte (negative: in a header) values may be wrong instead of unknown.

    They are after an enumerator without its value, and where the size of a type is asked for.
    """
    around = innermost(here.parsed.items, at) if at >= 0 else None
    if around is None or around.kind not in TYPES:
        return at < 0
    before = here.bare[around.start : at]
    asked = rb"\bsizeof\s*\(\s*(?:\w+\s+)?(?:" + b"|".join(map(re.escape, around.names)) + rb")\b"
    return b"{" not in before or bool(_ENUMERATOR.search(before) or re.search(asked, here.bare))
