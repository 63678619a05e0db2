"""The template arguments with which a unit uses its kernel templates.

Sources are explicit instantiations, launches (`scale<float, 4><<<...>>>`), and any other mention with
template arguments. Names that are local to the host function are resolved: constants and aliases to their
values, parameters of a host template, of its class or of a generic lambda to the arguments of their uses.
Arguments left to deduction are deduced from the types of the call's arguments. Device lambdas are functors by
then (`device_lambdas`). Not covered: arguments of computed type.

For example, `template <int N> void run(float *x) { step<float, N><<<1, 32>>>(x); }` and a call `run<4>(x)`
give `step<float, 4>`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.host_names import (
    MAX_DEPTH,
    WORDS,
    calls_of,
    lambda_values,
    substituted,
    with_locals,
)
from kcurate.cuda_source.launches.kernel_scopes import Scopes
from kcurate.cuda_source.launches.launch_sites import Launch
from kcurate.cuda_source.launches.template_heads import TemplateParam, deduced, template_params
from kcurate.cuda_source.parse.items import Item, Parsed, innermost
from kcurate.cuda_source.parse.parameters import header_of, params_of
from kcurate.cuda_source.preprocess.conditions import number
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER, REST_OF_LINE

# A kernel's file states at most so many instances, since each takes time to compile.
MAX_FOUND = 8
# At most so many uses of one host template are followed.
MAX_USES = 32
# Longer declarations are no constants or aliases of interest.
MAX_CONSTANT_BYTES = 400
_OBJECT = re.compile(rf"[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]({REST_OF_LINE})".encode())
_VALUE_OF = re.compile(rb"\b(?:decltype\s*\(\s*)?(\w+)(?:\s*\))?\s*(?:\.|::)\s*value\b(?:\s*\(\))?")
_KNOWN = re.compile(
    rb"__\w+|nv_bfloat162?|u?int\d*_t|u?(?:char|short|int|long|longlong)[1-4]|(?:float|double)[1-4]"
)


TYPES = "type", "using"


def _common(path: Sequence[bytes], other: Sequence[bytes]) -> int:
    """The number of leading parts that two paths share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path, other, strict=False)))


@dataclass(frozen=True)
class _Context:
    """The text before template arguments, which defines the local names in them, and the item around them."""

    text: bytes
    around: Item | None


class Instantiations:
    """The template uses in one unit.

    `launches` are the launches in it, `calls` its macro calls as (offset, expansion). `guessed` are the
    starts of kernels whose instances have types that nothing in the unit tells.
    """

    def __init__(
        self, parsed: Parsed, launches: Sequence[Launch], calls: Sequence[tuple[int, bytes]] = ()
    ) -> None:
        self.parsed = parsed
        self.bare = parsed.bare
        self.launches = launches
        self.calls = calls
        self.scopes = Scopes(parsed)
        self.guessed: frozenset[int] = frozenset()
        # Whether an unknown type is replaced by `TemplateParam.usual`; set during the second pass of `of`.
        self._guessing = False
        self._uses: dict[tuple[int, int, bool], Sequence[tuple[bytes, ...]]] = {}
        self.functions = [item for item in parsed.items if item.kind in ("function", "type")]

    @cached_property
    def declared(self) -> frozenset[bytes]:
        """Every name that the unit declares outside of functions."""
        return frozenset(name for item in self.parsed.items for name in item.names)

    @cached_property
    def types(self) -> frozenset[bytes]:
        """The names of the unit's types and type aliases."""
        return frozenset(name for item in self.parsed.items if item.kind in TYPES for name in item.names)

    @cached_property
    def qualified(self) -> Mapping[bytes, frozenset[bytes]]:
        """The qualified names that each name of a type, constant or namespace may mean at global scope."""
        meanings: dict[bytes, set[bytes]] = defaultdict(set)
        for item in self.parsed.items:
            space = item.space
            for name in item.names if item.kind in (*TYPES, "variable") else ():
                meanings[name].add(b"::".join([space, name]) if space else name)
            while space:
                meanings[space.rpartition(b"::")[2]].add(space)
                space = space.rpartition(b"::")[0]
        return {name: frozenset(paths) for name, paths in meanings.items()}

    @cached_property
    def by_name(self) -> Mapping[bytes, Sequence[Item]]:
        """The unit's functions by name."""
        return grouped(
            (name, item) for item in self.functions if item.kind == "function" for name in item.names
        )

    def of(self, kernel: Item) -> tuple[str, ...]:
        """The name expressions of a kernel template, such as `wave::step<float, 4>`; empty: none found.

        If nothing in the unit tells a type, a common one is taken (`TemplateParam.usual`), and the kernel is
        in `guessed`.
        """
        params = template_params(self._head(kernel))
        if not params:  # a full specialisation
            return ()
        name = kernel.qualified.decode("utf-8", "replace")
        for self._guessing in (False, True):
            if instances := self._stated(kernel, params, self._written(kernel, params)):
                self.guessed |= {kernel.start} if self._guessing else frozenset()
                return tuple(f"{name}<{b', '.join(args).decode('utf-8', 'replace')}>" for args in instances)
        return ()

    def stated(self, kernel: Item, written: Sequence[tuple[bytes, ...]]) -> tuple[str, ...]:
        """The name expressions of a kernel template with arguments that a second reader found."""
        name = kernel.qualified.decode("utf-8", "replace")
        instances = self._stated(kernel, template_params(self._head(kernel)), written) if written else ()
        return tuple(f"{name}<{b', '.join(args).decode('utf-8', 'replace')}>" for args in instances)

    def _written(self, kernel: Item, params: Sequence[TemplateParam]) -> Sequence[tuple[bytes, ...]]:
        """The argument lists with which the unit uses a kernel, local names resolved, without repetitions."""
        written: dict[tuple[bytes, ...], None] = dict.fromkeys(self._explicit(kernel.names[-1]))
        for launch in self.launches:
            if launch.kernel == kernel.names[-1] and kernel in self.scopes.meant(launch):
                written.update(dict.fromkeys(self._of_launch(kernel, launch)))
        if not written:
            written.update(dict.fromkeys(self._uses_in_code(kernel, 0, deduce=False)))
        needed = _needed(params)
        if self._guessing and params[: len(needed)] == needed and all(param.type for param in needed):
            written[tuple(param.usual for param in needed)] = None
        return tuple(written)

    def _stated(
        self, kernel: Item, params: Sequence[TemplateParam], written: Sequence[tuple[bytes, ...]]
    ) -> Sequence[tuple[bytes, ...]]:
        """The argument lists that the kernel's file can state: at most `MAX_FOUND`, one for each instance.

        Lists with too few or too many arguments, or with names that the file cannot know, are left out.
        """
        fewest = len(_needed(params))
        largest = (
            len(params) if not any(param.pack for param in params) else max(map(len, written), default=0)
        )
        usable = [args for args in written if fewest <= len(args) <= largest and self._global(args)]
        outside = [tuple(self._outside(argument, kernel) for argument in args) for args in usable]
        # If one instance is written in two ways, the first spelling is kept, at the position of the last.
        # Keys of published pairs depend on both.
        instances = {tuple(map(self._plain, args)): args for args in reversed(outside)}
        if not instances and fewest == 0:
            return ((),)
        return tuple(instances.values())[::-1][:MAX_FOUND]

    def _outside(self, argument: bytes, kernel: Item) -> bytes:
        """The argument as it is written at global scope, where the kernel's file states its instances."""

        def outside(match: re.Match[bytes]) -> bytes:
            paths = self.qualified.get(match[0], frozenset((match[0],)))
            if match[0] in paths or argument[: match.start()].rstrip().endswith((b"::", b".")):
                return match[0]
            scope = kernel.space.split(b"::")
            nearest = max(
                paths, key=lambda path: (_common(path.split(b"::"), scope), -path.count(b"::"), path)
            )
            return nearest if len(paths) == 1 or _common(nearest.split(b"::"), scope) else match[0]

        return IDENTIFIER.sub(outside, argument)

    def _plain(self, argument: bytes) -> bytes:
        """The argument with macros and constants replaced: equal for equal instances."""
        for _ in range(MAX_DEPTH):
            argument = substituted(substituted(argument, self.macros), self.constants)
        value = number(argument) if not IDENTIFIER.search(argument) else None
        return str(value).encode() if value is not None else b"".join(argument.split())

    @cached_property
    def constants(self) -> Mapping[bytes, bytes]:
        """The values of the unit's constants and type aliases, by name."""
        values: dict[bytes, bytes] = {}
        for item in self.parsed.items:
            if item.kind in ("variable", "using", "type") and len(item.names) == 1 and not item.template:
                text = self.bare[item.start : item.end]
                value = with_locals(item.names[0], text) if len(text) < MAX_CONSTANT_BYTES else b""
                if value and value != item.names[0]:
                    values[item.names[0]] = value
        return values

    @cached_property
    def macros(self) -> Mapping[bytes, bytes]:
        """The unit's macros without parameters, with their bodies."""
        macros = (item for item in self.parsed.items if item.kind == "macro")
        definitions = (_OBJECT.match(self.bare, item.start) for item in macros)
        return {match[1]: match[2].strip() for match in definitions if match and match[2].strip()}

    def _global(self, arguments: tuple[bytes, ...]) -> bool:
        """Whether every name in the arguments is known at global scope."""
        for argument in arguments:
            for match in IDENTIFIER.finditer(blank_literals(argument)):
                before = argument[: match.start()].rstrip()
                if before[-1:].isdigit() or before.endswith((b"::", b".")):
                    continue
                known = match[0] in WORDS or match[0] in self.declared or match[0] in self.qualified
                if not (known or _KNOWN.fullmatch(match[0])):
                    return False
        return True

    def _explicit(self, name: bytes) -> Iterator[tuple[bytes, ...]]:
        """The argument lists of the explicit instantiations of a name, in the unit and in macro calls."""
        for item in self.parsed.items:
            if item.kind == "instantiation" and name in item.names:
                yield from _uses(blank_literals(self.parsed.text[item.start : item.end]), name)
        for _, text in self.calls:
            for match in re.finditer(rb"\btemplate\b(?!\s*<)[^;{}]*;", text):
                yield from _uses(match[0], name)

    def _context(self, at: int, within: bytes = b"") -> _Context:
        around = innermost(self.functions, at)
        start = around.start if around is not None else max(self.bare.rfind(b"\n}", 0, at), 0)
        return _Context(self.bare[start:at] + b"\n" + within, around)

    def _of_launch(self, kernel: Item, launch: Launch) -> Iterator[tuple[bytes, ...]]:
        """The argument lists with which a launch uses a kernel; none if it launches an overload."""
        if not self._fits(kernel, launch) and any(
            self._fits(other, launch) for other in self.scopes.meant(launch)
        ):
            return  # it launches an overload
        template_args = tuple(argument.encode() for argument in launch.template_args)
        arguments = [argument.expression.encode() for argument in launch.arguments]
        context = self._context(launch.at, launch.within)
        yield from self._resolved(self._completed(kernel, template_args, arguments, context), context, 0)

    def _fits(self, kernel: Item, launch: Launch) -> bool:
        """Whether a launch passes as many arguments as the kernel has parameters."""
        params = params_of(self._head(kernel))
        return len(launch.arguments) == len(params) or any("..." in param.type for param in params)

    def _completed(
        self, function: Item, template_args: tuple[bytes, ...], arguments: Sequence[bytes], context: _Context
    ) -> tuple[bytes, ...]:
        """The template arguments of a call, followed by deduced ones as far as these are known."""
        wanted = template_params(self._head(function))
        if len(template_args) >= len(wanted):
            return template_args
        names = [param.name for param in wanted]
        head = self._head(function)
        at = head.rfind(function.names[-1] + b"(") if b"__global__" not in head else 0
        deduced_args = deduced(names, params_of(head[max(at, 0) :]), arguments, context.text, self.types)
        open_params = wanted[len(template_args) :]
        last = max((at for at, param in enumerate(open_params, 1) if param.name in deduced_args), default=0)
        for param in open_params[:last]:  # the parameters after these are defaulted or unknown
            value = deduced_args.get(param.name) or param.default
            if not value:
                break
            template_args += (value,)
        return template_args

    def _resolved(
        self, template_args: tuple[bytes, ...], context: _Context, depth: int
    ) -> Iterator[tuple[bytes, ...]]:
        """The argument lists with local names resolved.

        Parameters of the template around are replaced by the arguments of its uses, which may give several
        lists.
        """
        template_args = tuple(with_locals(argument, context.text) for argument in template_args)
        around = context.around
        for values in lambda_values(template_args, context.text, around, self.bare, self.by_name):
            bound_args = tuple(
                substituted(_VALUE_OF.sub(rb"\1", argument), values) for argument in template_args
            )
            replaced = bound_args if values else template_args
            params = template_params(self._head(around)) if around and around.template else ()
            names = [param.name for param in params]
            used = {name for argument in replaced for name in IDENTIFIER.findall(argument)} & set(names)
            if not used or around is None:
                yield replaced
            elif depth < MAX_DEPTH:
                uses = self._uses_of(around, depth)
                if self._guessing and not uses and all(p.type for p in params if p.name in used):
                    uses = (tuple(param.usual for param in params),)
                for arguments in uses:
                    bound = dict(zip(names, arguments, strict=False))
                    if used <= bound.keys():
                        yield tuple(substituted(argument, bound) for argument in replaced)

    def _uses_of(self, function: Item, depth: int) -> Sequence[tuple[bytes, ...]]:
        """The argument lists of a host template's uses, callers included; cached, as many paths lead here."""
        key = function.start, depth, self._guessing
        if key not in self._uses:
            names = dict.fromkeys(reversed(function.names))
            uses = dict.fromkeys(arguments for name in names for arguments in self._explicit(name))
            uses.update(
                dict.fromkeys(self._uses_in_code(function, depth, deduce=function.kind == "function"))
            )
            self._uses[key] = tuple(uses)[:MAX_USES]
        return self._uses[key]

    def _uses_in_code(self, function: Item, depth: int, deduce: bool) -> Iterator[tuple[bytes, ...]]:
        """The argument lists with which functions, tables and macro calls mention a function."""
        for name in dict.fromkeys(reversed(function.names)):
            # A table of function pointers may mention a kernel.
            tables = (
                [item for item in self.parsed.items if item.kind == "variable"] if function.kernel else []
            )
            texts = [
                (item.start, b"", self.bare[item.start : item.end])
                for item in (*self.functions, *tables)
                if item.start != function.start
                # A class's `used` leaves out what only its host methods use.
                and (name in item.used or (item.host and name in self.bare[item.start : item.end]))
                and not (item.kind == "type" and b"<" not in item.used and name in item.names)
            ]
            texts += [(at, text, text) for at, text in self.calls if name in text]
            for start, within, text in texts:
                for at, template_args, arguments in calls_of(text, name, deduce):
                    context = self._context(start, within) if within else self._context(start + at)
                    if within:
                        context = _Context(self._context(start).text + within[:at], context.around)
                    if deduce:
                        template_args = self._completed(function, template_args, arguments, context)
                    if template_args:
                        yield from self._resolved(template_args, context, depth + 1)

    def _head(self, item: Item) -> bytes:
        """The header of a function or type: its text before the body."""
        if item.kind == "type":
            return self.bare[item.start : max(self.bare.find(b"{", item.start), item.start)]
        return header_of(item, self.parsed.text)


def _needed(params: Sequence[TemplateParam]) -> Sequence[TemplateParam]:
    """The parameters without a default, which an instance must state."""
    return tuple(param for param in params if param.default is None and not param.pack)


def declaration(expression: str) -> bytes:
    """The explicit instantiation of a kernel template, from its name expression."""
    name = expression.encode()
    return b"template __global__ decltype(" + name + b") " + name + b";"


def missing(expressions: Sequence[str], items: Sequence[Item], text: bytes) -> list[str]:
    """The name expressions for which `items` have no explicit instantiation."""
    stated = {
        (item.names[-1], arguments)
        for item in items
        if item.kind == "instantiation" and item.names
        for arguments in _uses(blank_literals(text[item.start : item.end]), item.names[-1])
    }
    return [e for e in expressions if _key(e) not in stated]


def _key(expression: str) -> tuple[bytes, tuple[bytes, ...]]:
    """The unqualified name and the argument list of a name expression."""
    name, _, arguments = expression.encode().partition(b"<")
    return name.split(b"::")[-1], tuple(split_arguments(arguments[:-1], angles=True))


def _uses(text: bytes, name: bytes) -> Iterator[tuple[bytes, ...]]:
    """The template argument lists that follow a name in a text."""
    for _, template_args, _ in calls_of(text, name, deduce=False):
        yield template_args
