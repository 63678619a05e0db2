"""Resolves names in host code through definitions, macros, callers and small functions.

A named constant keeps its name and gets a default (`const int n = 1 << 20`): such names become sizes, or are
replaced by their defaults. Values known only at run time have no default. Not covered: idioms of single
expressions (`idioms`), memory (`allocations`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.declarations import Setting
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.draft.algebra import Poly, from_node, real
from kcurate.draft.host import containers, idioms

# Limit on look-ups within look-ups.
MAX_DEPTH = 16
# Limit on name look-ups per launch; host code that needs more can only be evaluated by running it.
MAX_STEPS = 4000
_COMPONENTS = "xyz"
_EXTENTS = frozenset(("dim3", "uint3", "auto"))
T = TypeVar("T")


@dataclass(frozen=True)
class Scope:
    """A position in host code from which names are looked up."""

    function: Function | None
    at: int


@dataclass
class HostValues:
    """Looks up names in one unit. `defaults` collects the values of names that were kept as names."""

    host: Code
    template: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, int] = field(default_factory=dict)
    loops: set[str] = field(default_factory=set)
    steps: int = 0
    _active: set[tuple[str | Node, int]] = field(default_factory=set)

    def scope(self, at: int) -> Scope:
        """The scope of a position."""
        return Scope(self.host.function_at(at), at)

    def resolve_text(self, text: str, scope: Scope) -> Node | None:
        """The tree of an expression with everything known substituted; None if it cannot be parsed."""
        node = cexpr.parse(text)
        return None if node is None else self.resolve(node, scope)

    def resolve(self, node: Node, scope: Scope) -> Node:
        """A tree with every name replaced by its meaning."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            return node

        def replacement(part: Node) -> Node | None:
            if part.op == "name":
                return self._once(part.text, scope, lambda: self._name(part.text, scope))
            if part.op == "member":
                return self._member(part, scope)
            if part.op == "index":
                return cexpr.name(cexpr.flat(part)) if cexpr.flat(part) else None
            if part.op == "sizeof":
                size = self.sizeof(part.text, scope)
                return cexpr.number(size) if size is not None else None
            if part.op == "call":
                key = part if part.real else f"{part.text}()"
                return self._once(key, scope, lambda: self._call(part, scope))
            if part.op == "?":
                return self._once(part, scope, lambda: self._choice(part, scope))
            return None

        return cexpr.substitute(node, replacement)

    def _once(self, lookup: str | Node, scope: Scope, look_up: Callable[[], T | None]) -> T | None:
        """Run `look_up` unless the same look-up is in progress: a name that is defined by itself stays a
        name."""
        key = lookup, scope.function.start if scope.function else -1
        self.steps += 1
        if key in self._active or len(self._active) > MAX_DEPTH or self.steps > MAX_STEPS:
            return None
        self._active.add(key)
        try:
            return look_up()
        finally:
            self._active.discard(key)

    def _choice(self, node: Node, scope: Scope) -> Node | None:
        """`c ? a : b`: the only branch that resolves, or both if equal; `n % b ? 1 : 0` rounds up."""
        yes, no = (self.resolve(arg, scope) for arg in node.args[1:])
        first, second = from_node(yes), from_node(no)
        remainder = idioms.remainder_of(node.args[0])
        if remainder is not None and first is not None and second is not None:
            larger, smaller, smaller_node = (first, second, no) if remainder[1] else (second, first, yes)
            if (larger - smaller).constant == 1:
                return self._rounding(smaller_node, smaller, remainder[0], scope)
        if first is not None and second in (None, first):
            return yes
        if second is not None and first is None:
            return no
        condition = from_node(self.resolve(node.args[0], scope))
        if condition is not None and condition.constant is not None:
            return yes if condition.constant else no
        return None

    def _rounding(self, least: Node, value: Poly, remainder: Node, scope: Scope) -> Node:
        """`least`, whose value is `value`, plus one if `remainder` is nonzero; for `n / b` that is
        `ceil_div(n, b)`."""
        left, right = (self.resolve(arg, scope) for arg in remainder.args)
        if from_node(Node("/", (left, right))) == value:
            return Node("call", (left, right), "ceil_div")
        carry = self._one_if(remainder, scope)
        return Node("+", (least, carry)) if value.constant != 0 else carry

    def _one_if(self, remainder: Node, scope: Scope) -> Node:
        """`n % b == 0 ? 0 : 1` as `min(1, n % b)`."""
        return Node("call", (cexpr.number(1), self.resolve(remainder, scope)), "min")

    def _rounded_up(self, first: Setting, settings: Sequence[Setting]) -> Node | None:
        """`blocks = n / b; if (n % b != 0) blocks++;`."""
        base = cexpr.parse(first.value)
        for setting in settings:
            remainder = idioms.one_more_if(self.host, setting) if base is not None else None
            if base is not None and remainder is not None:
                scope = self.scope(first.at)
                return Node("+", (self.resolve(base, scope), self._one_if(remainder, scope)))
        return None

    def _name(self, name: str, scope: Scope) -> Node | None:
        if name in self.template:
            node = cexpr.parse(self.template[name])
            return None if node is None or node == cexpr.name(name) else self.resolve(node, scope)
        if name in ("true", "false"):
            return cexpr.number(int(name == "true"))
        settings = self.host.settings(name, scope.at) if scope.function else ()
        if _independent_values(settings):
            return self._defined(name, settings, scope)
        if scope.function is not None and any(param == name for _, param in scope.function.params):
            return self._from_caller(name, scope.function)
        if name in self.host.macros:
            return self._settled(name, self.host.macros[name], Scope(None, 0))
        outside = self.host.settings(name)
        return self._defined(name, outside, Scope(None, 0)) if _independent_values(outside) else None

    def _defined(self, name: str, settings: Sequence[Setting], scope: Scope) -> Node | None:
        plain = _independent_values(settings)
        declared = [setting for setting in plain if setting.type] if scope.function is None else []
        before = declared or [setting for setting in plain if setting.at < scope.at] or plain
        modified = any(setting.updates for setting in settings)
        rounded = self._rounded_up(before[0], settings) if scope.function is not None else None
        if rounded is not None:
            return rounded
        if len(before) > 1 or modified:
            self.loops.update({name} if modified else ())
            for setting in before:
                self._note_default(name, setting.value, self.scope(setting.at))
        if modified:
            return None
        return self._settled(name, before[-1].value, self.scope(before[-1].at))

    def _note_default(self, name: str, text: str, scope: Scope) -> None:
        node = cexpr.parse(text)
        if node is None or name in cexpr.names(node) or (idioms.reads_program_input(node) and node.op != "?"):
            return
        poly = from_node(self.resolve(node, scope))
        value = poly.constant if poly is not None else None
        # A variable initialised to 0 or 1 and assigned again gets its real value later.
        if value is not None and value > 1 and name not in self.defaults:
            self.defaults[name] = value

    def _settled(self, name: str, text: str, scope: Scope) -> Node | None:
        """What a name's definition resolves to: other names, a real number, or the name itself with a default
        value."""
        node = cexpr.parse(text)
        if node is None or name in cexpr.names(node):
            return None
        resolved = self.resolve(node, scope)
        poly = from_node(resolved)
        if poly is not None and poly.constant is not None and not cexpr.is_real(node):
            if poly.constant > 1 or not self.host.set_by_call(name, scope.function):
                self.defaults.setdefault(name, poly.constant)
            return cexpr.name(name)
        if poly is None and node.op == "?":
            for branch in node.args[1:]:
                self._note_default(name, idioms.literal(branch), scope)
        if real(resolved) == 0 and self.host.set_by_call(name, scope.function):
            return None  # it gets its value later
        if poly is not None:
            return resolved
        return (
            resolved if real(resolved) is not None or cexpr.plain(resolved).op in ("name", "member") else None
        )

    def _from_caller(self, name: str, function: Function) -> Node | None:
        """The argument in the first call that can be resolved."""
        for at, argument in self.host.arguments_passed_for(name, function):
            node = cexpr.parse(argument)
            if node is None:
                continue
            resolved = self.resolve(node, self.scope(at))
            value = from_node(resolved)
            if value is not None and value.constant is not None and not cexpr.is_real(resolved):
                self.defaults.setdefault(name, value.constant)
                return cexpr.name(name)
            if value is not None or real(resolved) is not None:
                return resolved
        return None

    def _member(self, node: Node, scope: Scope) -> Node | None:
        """`block.x` of a dim3, else a name made from the path."""
        owner, path = node.args[0], cexpr.path(node)
        if not path:
            return cexpr.name(cexpr.flat(node)) if cexpr.flat(node) else None
        component = node.text in _COMPONENTS and owner.op == "name"
        if component and self._kind(owner.text, scope) in _EXTENTS | {""}:
            extents = self.extents(owner.text, scope)
            if extents is not None:
                at = _COMPONENTS.index(node.text)
                return extents[at] if at < len(extents) else cexpr.number(1)
        joined = path.replace(".", "_")
        settings = self.host.settings(path, scope.at) if scope.function else ()
        plain, value = _independent_values(settings), None
        is_updated = any(setting.updates for setting in settings)
        if plain and not is_updated and path not in plain[0].value.replace("->", ".").replace(" ", ""):
            origin = self.scope(plain[0].at)
            value = self._once(joined, scope, lambda: self._settled(joined, plain[0].value, origin))
        return value if value is not None else cexpr.name(joined)

    def _call(self, node: Node, scope: Scope) -> Node | None:
        if node.real:
            at = scope.at if scope.function else None
            return containers.queried(self.host, node, at, self._resolved_at)
        for function in self.host.functions:
            missing = len(function.params) - len(node.args)
            fits = function.name == node.text and 0 <= missing <= len(function.defaults)
            if fits and function.returned and not function.kernel:
                return self._expanded(function, node, scope)
        return None

    def elements(self, name: str, scope: Scope) -> Node | None:
        """How many elements a vector, buffer or tensor holds."""
        at = scope.at if scope.function else None
        return self._once(
            f"{name}[]", scope, lambda: containers.elements(self.host, name, at, self._resolved_at)
        )

    def _resolved_at(self, text: str, at: int) -> Node | None:
        return self.resolve_text(text, self.scope(at))

    def _expanded(self, function: Function, call: Node, scope: Scope) -> Node | None:
        body = cexpr.parse(function.returned or "")
        names = [param for _, param in function.params]
        defaults = [cexpr.parse(text) for text in function.defaults[len(call.args) - len(names) :]]
        values = [*call.args, *(defaults if len(call.args) < len(names) else ())]
        if body is None or None in values:
            return None
        arguments = {name: self.resolve(arg, scope) for name, arg in zip(names, values, strict=True) if arg}
        inlined = cexpr.substitute(body, lambda part: arguments.get(part.text) if part.op == "name" else None)

        def returned(part: Node) -> Node | None:
            lookup = f"{part.text}()"
            return self._once(lookup, scope, lambda: self._call(part, scope)) if part.op == "call" else None

        calls = cexpr.substitute(inlined, returned)
        return self._choice(calls, scope) if calls.op == "?" else calls

    def sizeof(self, text: str, scope: Scope) -> int | None:
        """Bytes of a type, or of a variable's type (`sizeof(*p)`, `sizeof(p[0])` remove a star)."""
        return idioms.size_of(self.host, self.template, text, scope.at if scope.function else None)

    def _kind(self, name: str, scope: Scope) -> str:
        """The last word of a variable's type; empty if it is not known."""
        type_text = self.host.type_of(name, scope.at if scope.function else None) or ""
        return (type_text.split() or [""])[-1]

    def extents(self, text: str, scope: Scope) -> tuple[Node, ...] | None:
        """The one to three extents of a grid or block: a number, a `dim3(...)`, or a variable of either."""
        name = text.strip()
        arguments = name.removeprefix("dim3").strip()
        if arguments[:1] == "{" or (arguments != name and arguments[:1] == "("):
            return self._listed(arguments[1:-1], scope)
        if name.isidentifier():
            if self._kind(name, scope) in _EXTENTS:
                lookup = f"{name}. at {scope.at}"
                return self._once(lookup, scope, lambda: self._extents_of(name, scope))
            if "dim3" in self.host.macros.get(name, ""):
                return self._once(f"{name}.", scope, lambda: self.extents(self.host.macros[name], scope))
        node = self.resolve_text(text, scope)
        return (node,) if node is not None else None

    def _listed(self, text: str, scope: Scope) -> tuple[Node, ...] | None:
        pieces = [piece for piece in split(text) if piece]
        nodes = [self.resolve_text(piece, scope) for piece in pieces]
        resolved = tuple(node for node in nodes if node is not None)
        return resolved if 0 < len(resolved) == len(pieces) <= 3 else None

    def _extents_of(self, name: str, scope: Scope) -> tuple[Node, ...] | None:
        function = scope.function
        settings = _independent_values(self.host.settings(name, scope.at)) if function else []
        if not settings and function is not None:
            for at, argument in self.host.arguments_passed_for(name, function):
                return self.extents(argument, self.scope(at))
        settings = settings or _independent_values(self.host.settings(name))
        before = [setting for setting in settings if setting.at < scope.at] or settings
        if not before:
            return self._with_members(name, None, scope, function.body if function else scope.at)
        last = before[-1]
        origin = self.scope(last.at)
        extents = self._listed(last.value, origin) if last.how != "=" else self.extents(last.value, origin)
        return self._with_members(name, extents, scope, last.at)

    def _with_members(
        self, name: str, extents: tuple[Node, ...] | None, scope: Scope, after: int
    ) -> tuple[Node, ...] | None:
        """Apply `grid.x = ...;` assignments after the definition."""
        parts = list(extents) if extents is not None else []
        for at, component in enumerate(_COMPONENTS):
            for setting in self.host.settings(f"{name}.{component}", scope.at):
                if setting.how != "=" or not after < setting.at < scope.at:
                    continue
                node = self.resolve_text(setting.value, self.scope(setting.at))
                if node is None:
                    return None
                parts += [cexpr.number(1)] * (at + 1 - len(parts))
                parts[at] = node
        return tuple(parts) or None


def _independent_values(settings: Sequence[Setting]) -> list[Setting]:
    """The settings whose value does not depend on an earlier one, unlike `n++` or `n += 1`."""
    return [setting for setting in settings if setting.value and not setting.updates]


def split(text: str, angles: bool = False) -> list[str]:
    """The items of an argument list, split at top-level commas; `angles` counts `<` and `>` as brackets."""
    return [piece.decode("latin-1") for piece in split_arguments(text.encode("latin-1"), angles)]
