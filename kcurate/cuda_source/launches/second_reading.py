"""Compares this package's reading of a unit with a compiler's reading, and takes instances from the latter.

Behind an error a compiler continues with a type or a value of its own, so in a text with errors an instance
may be wrong. Not covered: running the compiler (`kcurate.extract.second_reader`).
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
# What clang substitutes for an unknown type: `int` in a typedef, `void` in a pointer cast.
_SUBSTITUTE = re.compile(rb"(?<!unsigned )\b(?:int|void)\b")
_ENUMERATOR = re.compile(rb"\benum\b[^{};]*\{[^{}]*\Z")
_NUMBER = re.compile(rb"(?<!\w)\d|\btrue\b|\bfalse\b")
# The end of clang's message on a missing header. Not counted: each unknown name then has its own error.
_NOT_FOUND = "file not found"
# In clang's message on an expression that fits several overloads: only a use tells which one is meant.
_OVERLOADED = "overloaded function"


@dataclass(frozen=True)
class SeenKernel:
    """A kernel definition: its name and its byte span in the text."""

    name: str
    start: int
    end: int
    template: bool


@dataclass(frozen=True)
class SeenInstance:
    """An instance of a template that the code uses.

    `at` is a byte of the template, `id` the instance's unique name, `arguments` as written at file scope.
    """

    name: str
    at: int
    id: str
    arguments: str


@dataclass(frozen=True)
class Reading:
    """A compiler's reading of a text, and of the name expressions that it was asked about.

    `stated` maps an expression's number to the id of its instance, `refused` to the error message. `errors`
    are (offset in the text, or -1 for a header; message). `failed`: why there is no reading.
    `reached`: where each kernel begins, and what it means (and what that means), in order.
    """

    kernels: tuple[SeenKernel, ...] = ()
    instances: tuple[SeenInstance, ...] = ()
    stated: tuple[tuple[int, str], ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    errors: tuple[tuple[int, str], ...] = ()
    reached: tuple[tuple[int, tuple[int, ...]], ...] = ()
    failed: str | None = None


# Reads a text, and name expressions such as `wave::step<float, 4>` as if they were appended to it.
SecondReader = Callable[[bytes, Sequence[str]], Reading]


class Seen(StrEnum):
    """Which reader sees a kernel or an instance; "here" is this package."""

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
    """A kernel, or an instance of it (`what`), and which reader sees it.

    `at` is an offset in the unit's text.
    """

    seen: Seen
    at: int
    kernel: str = ""
    what: str = ""
    path: str = ""
    line: int = 0


@dataclass
class Compared:
    """The result of a comparison.

    `expressions` are the name expressions of each kernel template, by its start; `guessed` are the starts of
    templates with guessed types. `reached`: by a kernel's start, where what it means begins.
    """

    expressions: dict[int, tuple[str, ...]]
    guessed: frozenset[int]
    findings: list[Finding] = field(default_factory=list)
    reached: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def of(self, kernel: Item) -> tuple[str, ...]:
        """The name expressions of a kernel; empty: it is no template, or has none."""
        return self.expressions.get(kernel.start, ())


def compare(
    kernels: Sequence[Item],
    instantiations: Instantiations,
    second: SecondReader | None,
    text: bytes,
    shift: int,
) -> Compared:
    """The instances of the kernel templates: those found in the text, or else those of `second` that are
    certain.

    `instantiations` finds them in the text. `text` is what `second` reads; it begins at byte `shift` of the
    unit.
    """
    expressions = {item.start: instantiations.of(item) for item in kernels if item.template}
    compared = Compared(expressions, instantiations.guessed)
    if second is None or not (kernels or MARK.search(text)):
        return compared
    # Guessed instances are not asked about: they may cause errors in the text itself.
    certain = (item for item in kernels if item.start not in instantiations.guessed)
    asked = [(item.start, expression) for item in certain for expression in compared.of(item)]
    reading = second(text, [expression for _, expression in asked])
    if reading.failed is not None:
        compared.findings.append(Finding(Seen.FAILED, shift, what=reading.failed))
        return compared
    comparison = _Comparison(compared, instantiations, reading, shift, _sure(instantiations, reading, shift))
    numbers = grouped((start, number) for number, (start, _) in enumerate(asked))
    known: set[SeenKernel] = set()
    for item in kernels:
        name = item.names[-1].decode("latin-1")
        definitions = [seen for seen in reading.kernels if seen.name == name and _overlaps(seen, item, shift)]
        known.update(definitions)
        outcome = Seen.KERNEL if definitions else Seen.KERNEL_MISSED
        compared.findings.append(Finding(outcome, item.start, name))
        if any(definition.template for definition in definitions):
            expressions_of = {number: asked[number][1] for number in numbers.get(item.start, ())}
            comparison.instances(item, name, expressions_of)
    compared.reached.update(_reached(kernels, compared.findings, instantiations, reading, shift))
    added = [seen for seen in reading.kernels if seen not in known]
    compared.findings += [Finding(Seen.KERNEL_ADDED, seen.start + shift, seen.name) for seen in added]
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
    """Compares the instances of templates, one template after the other, and adds to `compared`."""

    compared: Compared
    instantiations: Instantiations
    reading: Reading
    shift: int
    sure: Callable[[bytes], bool]

    def instances(self, item: Item, name: str, asked: Mapping[int, str]) -> None:
        """Compare the instances of one kernel template; take the compiler's if the text gives none.

        `asked` are the template's name expressions by number.
        """
        stated, refused = dict(self.reading.stated), dict(self.reading.refused)
        if any(_OVERLOADED in refused.get(number, "") for number in asked):
            return
        theirs = {
            instance.id: instance.arguments.replace(_UNNAMED, "") for instance in self.reading.instances
            if instance.name == name and item.start <= instance.at + self.shift < item.end
        }  # fmt: skip
        ours = {stated.get(number, expression): number for number, expression in asked.items()}
        findings = [
            Finding(Seen.INSTANCE if id_ in theirs else Seen.INSTANCE_MISSED, item.start, name, asked[number])
            for id_, number in ours.items()
        ]
        taken: tuple[str, ...] = ()
        # An expression that the compiler rejects in a text without errors is no instance.
        refuses = not self.reading.errors and not any(number in stated for number in ours.values())
        if not ours or refuses:
            argument_lists = [_arguments(text.encode()) for text in theirs.values()]
            certain = [arguments for arguments in argument_lists if all(map(self.sure, arguments))]
            taken = self.instantiations.stated(item, certain)
        if taken:
            findings += [Finding(Seen.TAKEN, item.start, name, expression) for expression in taken]
            self.compared.expressions[item.start] = taken
            self.compared.guessed -= {item.start}
        elif len(ours) < MAX_FOUND:
            added = (arguments for id_, arguments in theirs.items() if id_ not in ours)
            findings += [Finding(Seen.INSTANCE_ADDED, item.start, name, arguments) for arguments in added]
        self.compared.findings += findings


def _arguments(text: bytes) -> tuple[bytes, ...]:
    """Template arguments as they can be stated; the compiler writes those of a pack as `<float, int>`."""
    arguments = split_arguments(text, angles=True)
    packs = (
        split_arguments(argument[1:-1], angles=True) if argument[:1] == b"<" else [argument]
        for argument in arguments
    )
    return tuple(argument for pack in packs for argument in pack)


def _overlaps(kernel: SeenKernel, item: Item, shift: int) -> bool:
    return kernel.start + shift < item.end and kernel.end + shift > item.start


def _sure(instantiations: Instantiations, reading: Reading, shift: int) -> Callable[[bytes], bool]:
    """A predicate: whether a template argument is certainly not a substitute for something unknown."""
    errors = [at + shift if at >= 0 else at for at, why in reading.errors if not why.endswith(_NOT_FOUND)]
    numbers_too = any(_makes_numbers_wrong(instantiations, at) for at in errors)

    def sure(argument: bytes) -> bool:
        unknown = bool(errors) and _SUBSTITUTE.search(argument)
        return not (unknown or (numbers_too and _NUMBER.search(argument)))

    return sure


def _makes_numbers_wrong(instantiations: Instantiations, at: int) -> bool:
    """Whether an error at byte `at` (negative: in a header) may give later constants a wrong value.

    That is so after an enumerator without a value, and where the size of a broken type is used.
    """
    around = innermost(instantiations.parsed.items, at) if at >= 0 else None
    if around is None or around.kind not in TYPES:
        return at < 0
    before = instantiations.bare[around.start : at]
    asked = rb"\bsizeof\s*\(\s*(?:\w+\s+)?(?:" + b"|".join(map(re.escape, around.names)) + rb")\b"
    return b"{" not in before or bool(_ENUMERATOR.search(before) or re.search(asked, instantiations.bare))
