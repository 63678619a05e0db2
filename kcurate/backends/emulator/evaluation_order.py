"""Rewrites code so that operands and arguments are evaluated from left to right, as by NVRTC; g++ goes from
the right.

C++ leaves the order open, so two calls of a random number generator in one argument list would give other
numbers here than on a GPU, and code could detect the emulator. If evaluating one argument has an effect that
another may observe, both are stored in variables first, in order; a variable on the left of an operator is
read before the right side changes it. Not covered: initialisers of members, and references among the
parameters of functions that are not the code's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count

from kcurate.cuda_source.parse.items import tree_of
from kcurate.cuda_source.parse.syntax_tree import Node, Tree, ancestors, bare
from kcurate.cuda_source.semantics.builtin_effects import computes, only_reads

_CHANGES = ("assignment_expression", "update_expression")
# Lvalues: a name for one is read only where it is used.
_PLACES = ("identifier", "subscript_expression", "field_expression", "pointer_expression", *_CHANGES)
# Operators whose operands C++ orders.
_ORDERED = (b"&&", b"||", b",", b"<<", b">>", b"->*", b".*")
# Where g++ takes constants alone, or evaluates nothing.
_CONSTANT = frozenset(
    (
        "template_argument_list", "static_assert_declaration", "decltype", "sizeof_expression",
        "case_statement", "enumerator", "parameter_list", "field_declaration", "array_declarator",
        "preproc_if", "preproc_elif", "requires_clause", "noexcept",
    )
)  # fmt: skip
# What has operands or arguments, and the ends of names.
_LISTED = ("call_expression", "binary_expression", "init_declarator")
_NAMES = ("identifier", "field_identifier", "type_identifier")
_CASTS = frozenset((b"reinterpret_cast", b"const_cast", b"dynamic_cast"))


def from_the_left(code: str) -> str:
    """The code with operands and arguments evaluated from the left; line numbers stay the same.

    Example: `f(next(), next())` becomes `({ auto kcu_part_1 = next(); auto kcu_part_2 = next(); f(...); })`,
    with the variables as arguments (`auto &&` and a cast where a parameter may be a reference).
    """
    order = _Order(tree_of(code.encode()), count(1))
    return order.rendered(0, len(order.tree.source), order.outermost(order.tree.root)).decode()


class _Order:
    """Rewrites one code, or the body of a macro of `whole`. `numbers`: counter for new variable names."""

    def __init__(self, tree: Tree, numbers: Iterator[int], whole: _Order | None = None) -> None:
        self.tree, self._numbers, self._whole = tree, numbers, whole or self

    def outermost(self, within: Node) -> Iterator[Node]:
        """The outermost expressions below a node that must be rewritten, and the bodies of macros."""
        stack = list(reversed(within.children))
        while stack:
            node = stack.pop()
            if (node.type in _LISTED and self._needs_order(node)) or node.type == "preproc_arg":
                yield node
            else:
                stack.extend(reversed(node.children))

    def rendered(self, start: int, end: int, places: Iterator[Node]) -> bytes:
        """The source from byte `start` to byte `end`, with the nodes `places` rewritten."""
        pieces = []
        for node in places:
            pieces += [self.tree.source[start : node.start_byte], self._in_order(node)]
            start = node.end_byte
        return b"".join([*pieces, self.tree.source[start:end]])

    def _inside(self, node: Node) -> bytes:
        """A node's text with the node itself, or expressions in it, rewritten."""
        if node.type in _LISTED and self._needs_order(node):
            return self._in_order(node)
        return self.rendered(node.start_byte, node.end_byte, self.outermost(node))

    def _needs_order(self, node: Node) -> bool:
        parts = self._parts(node)
        return bool(self._named(node, parts)) and not _constant(self.tree, node)

    def _parts(self, node: Node) -> list[Node]:
        """The operands or arguments of an expression; empty if C++ defines their order, or for a macro."""
        if node.type == "binary_expression":
            left, operator, right = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
            return [] if self.tree.text(operator) in _ORDERED else [left, right]
        listed = _arguments(node)
        parts = list(listed.named_children) if listed is not None else []
        kinds = {part.type for part in parts}
        unclear = kinds & {"parameter_pack_expansion", "initializer_list"} or node.has_error
        return [] if unclear or self._callee(node) in self._whole._macros else parts

    def _named(self, node: Node, parts: Sequence[Node]) -> list[int]:
        """Which operands or arguments must be stored in variables to fix the order."""
        with_effect = [at for at, part in enumerate(parts) if self._acts(part)]
        if not with_effect or len(parts) < 2:
            return []
        if node.type == "binary_expression":
            # g++ begins from the left unless an operator is a function of the code's.
            if with_effect == [0, 1]:
                return with_effect if b"operator" in self.tree.source else []
            left, right = parts
            early = bare(left).type in _PLACES[:3] and with_effect == [1]
            return [0] if early and self._identifiers(left) & self._identifiers(right) else []
        used = [self._identifiers(part) for part in parts]
        related = [
            at for at in range(len(parts))
            if at not in with_effect and any(not used[at].isdisjoint(used[other]) for other in with_effect)
        ]  # fmt: skip
        return sorted((*with_effect, *related)) if len(with_effect) + len(related) > 1 else []

    def _in_order(self, node: Node) -> bytes:
        """A statement expression that evaluates the parts in order, or the expression with its left operand
        read first."""
        if node.type == "preproc_arg":
            return self._of_macro(node)
        parts = self._parts(node)
        stored = self._named(node, parts)
        if node.type == "binary_expression" and len(stored) == 1:
            left = parts[0]
            rest = self.tree.source[left.end_byte : parts[1].start_byte] + self._inside(parts[1])
            return b"::kcu_now(" + self.tree.text(left) + b")" + rest
        declarations, pieces, start = [], list[bytes](), node.start_byte
        function, before_value = node.child_by_field_name("function"), b""
        if function is not None:
            pieces.append(self._inside(function))
            start = function.end_byte
        elif node.type == "init_declarator":
            start = node.child_by_field_name("value").start_byte
            before_value = self.tree.source[node.start_byte : start]
            pieces.append(self.tree.text(node.parent.child_by_field_name("type")))
        for at, part in enumerate(parts):
            text = self._inside(part)
            if at in stored:
                name = b"kcu_part_%d" % next(self._numbers)
                kind = b"auto " if self._by_value(node, at, part) else b"auto &&"
                declarations.append(b"%s%s = %s; " % (kind, name, text))
                text = name if kind == b"auto " else b"static_cast<decltype(%s)>(%s)" % (name, name)
            pieces += [self.tree.source[start : part.start_byte], text]
            start = part.end_byte
        pieces.append(self.tree.source[start : node.end_byte])
        ordered = b"({ " + b"".join(declarations) + b"".join(pieces) + b"; })"
        return before_value + b"(" + ordered + b")" if before_value else ordered

    def _of_macro(self, body: Node) -> bytes:
        """The body of a macro, rewritten as code inside a function."""
        before, after, text = b"void kcu_body() { ", b"; }", self.tree.text(body)
        inner = _Order(tree_of(before + text + after), self._numbers, self._whole)
        if inner.tree.root.has_error:
            return text
        end = len(inner.tree.source)
        return inner.rendered(0, end, inner.outermost(inner.tree.root))[len(before) : -len(after)]

    def _by_value(self, node: Node, at: int, part: Node) -> bool:
        """Whether an argument is passed by value, as far as the parameters are known."""
        if bare(part).type not in _PLACES or node.type == "binary_expression":
            return False
        name = self._callee(node)
        if name not in self._whole._functions:
            return computes(name) or bare(part).type in _CHANGES
        lists = [_parameters(function) for function in self._whole._functions[name]]
        return all(at < len(listed) and b"&" not in self.tree.text(listed[at]) for listed in lists)

    def _identifiers(self, node: Node) -> set[bytes]:
        return {self.tree.text(use) for use in self.tree.nodes("identifier", within=node)}

    @cached_property
    def _macros(self) -> frozenset[bytes]:
        named = (node.child_by_field_name("name") for node in self.tree.nodes("preproc_function_def"))
        return frozenset(self.tree.text(name) for name in named if name is not None)

    @cached_property
    def _functions(self) -> dict[bytes, list[Node]]:
        """The functions that the code defines, methods too, by their last name."""
        functions: dict[bytes, list[Node]] = {}
        for function in self.tree.functions():
            functions.setdefault(function.name.rpartition(b"::")[2], []).append(function.node)
        return functions

    @cached_property
    def _with_effects(self) -> frozenset[bytes]:
        """The names of the code's functions with lasting side effects, directly or through calls."""
        changing = {
            name for name, nodes in self._whole._functions.items() if any(map(self._changes_others, nodes))
        }
        calls = {
            name: [call for node in nodes for call in self.tree.nodes("call_expression", within=node)]
            for name, nodes in self._whole._functions.items()
        }
        while more := {
            name for name, inner in calls.items()
            if name not in changing and any(self._call_acts(call, changing) for call in inner)
        }:  # fmt: skip
            changing |= more
        return frozenset(changing)

    def _call_acts(self, call: Node, known_effects: frozenset[bytes] | set[bytes]) -> bool:
        """Whether a call may change something that another expression reads.

        A header's function can do so only through pointer arguments; a header's methods may do anything.
        """
        name, function = self._callee(call), call.child_by_field_name("function")
        if name in self._whole._functions:
            return name in known_effects
        if name in self._whole._lambdas:
            return any(map(self._changes_others, self._whole._lambdas[name]))
        if name in self._whole._variables:
            return b"operator()" in known_effects
        listed = call.child_by_field_name("arguments")
        addresses = (part.type == "pointer_expression" for part in listed.named_children) if listed else ()
        named = name.startswith(b"atomic") or name in (b"exchange", b"swap")
        method = function is not None and function.type == "field_expression"
        return named or method or (any(addresses) and name not in _CASTS and not only_reads(name))

    @cached_property
    def _variables(self) -> frozenset[bytes]:
        return frozenset(variable.name for variable in self.tree.declared(self.tree.root))

    @cached_property
    def _lambdas(self) -> dict[bytes, list[Node]]:
        """The lambdas that variables hold, by the variable."""
        lambdas: dict[bytes, list[Node]] = {}
        for variable in self.tree.declared(self.tree.root):
            if variable.value is not None and variable.value.type == "lambda_expression":
                lambdas.setdefault(variable.name, []).append(variable.value)
        return lambdas

    def _acts(self, part: Node) -> bool:
        """Whether evaluating an operand or argument may change something."""
        return any(
            node.type in _CHANGES or self._call_acts(node, self._whole._with_effects)
            for node in self.tree.nodes(*_CHANGES, "call_expression", within=part)
        )

    def _changes_others(self, function: Node) -> bool:
        """Whether a function assigns to anything but its own local variables."""
        listed = (declared for item in _parameters(function) for declared in self.tree.declared_by(item))
        body = function.child_by_field_name("body")
        values = [declared for declared in listed if not declared.sizes]
        values += self.tree.declared(body)
        private = {value.name for value in values if not value.reference and not value.stars}
        for node in self.tree.nodes(*_CHANGES, within=body):
            target = bare(node.child_by_field_name("left") or node.child_by_field_name("argument"))
            while target.type in ("subscript_expression", "field_expression"):
                if target.type == "field_expression" and b"->" in self.tree.text(target):
                    return True
                target = bare(target.child_by_field_name("argument"))
            if target.type != "identifier" or self.tree.text(target) not in private:
                return True
        return False

    def _callee(self, call: Node) -> bytes:
        """The unqualified name of a call's function; empty for a builtin type."""
        function = call.child_by_field_name("function")
        if call.type == "init_declarator":
            function = call.parent.child_by_field_name("type")
        while function is not None and function.type not in _NAMES:
            if function.type == "primitive_type":
                return b"int"
            function = function.child_by_field_name("name") or function.child_by_field_name("field")
        return self.tree.text(function) if function is not None else b""


def _arguments(node: Node) -> Node | None:
    """The arguments of a call, or of an initialiser in parentheses."""
    listed = node.child_by_field_name("arguments" if node.type == "call_expression" else "value")
    return listed if listed is not None and listed.type == "argument_list" else None


def _parameters(function: Node) -> list[Node]:
    """The parameters of a definition, unnamed ones too."""
    for node in _below(function.child_by_field_name("declarator")):
        if node.type == "function_declarator":
            return list(node.child_by_field_name("parameters").named_children)
    return []


def _below(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.child_by_field_name("declarator") or (node.named_children[-1:] or [None])[0]


def _constant(tree: Tree, node: Node) -> bool:
    """Whether an expression is outside functions, must be constant, or is not evaluated."""
    inside = False
    for parent in ancestors(node):
        if parent.type in _CONSTANT:
            return True
        if parent.type == "declaration" and b"constexpr" in tree.text(parent).split(b"=")[0]:
            return True
        if parent.type == "compound_statement":
            inside = True
            break
    return not inside
