"""Formulas of one operation that may give what a side computes in a longer way.

A value that a loop leaves, or that an expression with calls or divisions has, is compared with every formula
of one operation on values that are known before: on the emulator all of them at once, by a probe each, while
the side runs. Only a formula that always gave the same value is tried in its place. Example:

    unsigned a = x[i], s = 0;
    for (unsigned b = r[i]; b; b >>= 1, a <<= 1) if (b & 1) s += a;    ->    s = x[i] * r[i];

Not covered: earlier values as they are where nothing computes them (`kcurate.mutate.replacements`), formulas of
several operations, values in arrays and structs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors
from kcurate.mutate.guards import LOOPS, SWITCH, Guard, Part, cast, instead, shown, skipped
from kcurate.mutate.numbers_in_scope import ARITHMETIC, Scope, is_real
from kcurate.mutate.replacements import assigned

# Numbered after all other parts.
RANK = 9
# The most formulas of a side that are probed, of one value, and the known values and constants in them.
MOST_FORMULAS, MOST_OF_A_VALUE, MOST_KNOWN, MOST_CONSTANTS = 400, 120, 5, 3
_OF_REALS = (
    "{0}", "-{0}", "fabsf({0})", "{0} * {0}", "sqrtf({0})", "rsqrtf({0})", "1.0f / {0}", "expf({0})",
    "logf({0})", "sinf({0})", "cosf({0})", "tanhf({0})",
)  # fmt: skip
_OF_TWO_REALS = ("{0} * {1}", "{0} / {1}", "{1} / {0}", "{0} + {1}", "{0} - {1}", "{1} - {0}")
_OF_REAL_AND_CONSTANT = ("{0} * {1}", "{0} / {1}", "{0} + {1}", "{0} - {1}")
_OF_WHOLES = ("{0}", "-{0}")
_DIVIDED = ("({1} > 0 ? {0} / {1} : 0)", "({1} > 0 ? {0} % {1} : 0)")
_OF_TWO_WHOLES = (
    "{0} * {1}", "{0} + {1}", "{0} - {1}", "{1} - {0}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", *_DIVIDED,
    *(text.replace("0}", "2}").replace("1}", "0}").replace("2}", "1}") for text in _DIVIDED),
)  # fmt: skip
_OF_WHOLE_AND_CONSTANT = ("{0} * {1}", "{0} + {1}", "{0} - {1}", *_DIVIDED)
_TO_WHOLE = ("(int)({0})", "(int)({0} * {1})", "(int)({0} / {1})")
_CALLS_OF_MATHS = re.compile(
    rb"_*(?:sqrt|rsqrt|cbrt|exp2|exp10|expm1|exp|log2|log10|log1p|log|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh"
    rb"|pow|fmod|remainder|floor|ceil|trunc|hypot|erf|float_as_u?int|u?int_as_float)f?"
)
CHANGES = ("assignment_expression", "update_expression", "lambda_expression")
_REAL, _WHOLE = (b"float", b"double"), (b"int", b"unsigned", b"unsigned int", b"long long", b"unsigned long long")


@dataclass(frozen=True)
class _Value:
    """A number that a side computes: its text and type, and the statement before which it is known.

    `guards`: what puts `@text@` in its place; `hidden`: variables that are not what they were before;
    `simple`: formulas that cost less than a call or a division alone.
    """

    what: str
    text: str
    like: Declared
    before: Node
    guards: tuple[Guard, ...]
    hidden: frozenset[bytes] = frozenset()
    simple: bool = False


def formulas(tree: Tree) -> Iterator[Part]:
    """The candidates of all functions, each with its probe."""
    for function in tree.functions():
        scope = Scope(tree, function)
        for value in (*_left_by_loops(scope), *_of_expressions(scope)):
            for text in islice(_texts(scope, value), MOST_OF_A_VALUE):
                guards = tuple(
                    Guard(guard.start, guard.end, guard.before.replace("@text@", text), guard.after)
                    for guard in value.guards
                )
                kind = "real" if is_real(value.like) else "whole"
                probe = Guard(
                    value.before.start_byte, value.before.start_byte,
                    f"kcu_probe_{kind}(@, {value.text}, {text}); ", "",
                )  # fmt: skip
                what = f"{value.what}, where {text} serves"
                yield Part(what, guards, RANK, visible_in_counts=not value.simple, probe=probe)


def _left_by_loops(scope: Scope) -> Iterator[_Value]:
    """The variables that a loop changes and that a later statement of its block reads."""
    tree, body = scope.tree, scope.function.body
    for loop in tree.nodes(*LOOPS, within=body):
        later = _following(loop)
        if later is None:
            continue
        set_ = _set_in(tree, loop)
        for number in scope.visible_from(loop):
            if number.name not in set_ or not any(True for _ in _uses_after(tree, number.name, loop)):
                continue
            name = number.name.decode()
            store = f"if ({SWITCH}) {name} = {cast(number, b'@text@')}; "
            guards = (skipped(loop), Guard(later.start_byte, later.start_byte, store, ""))
            what = f"the value of {name} after {shown(tree, loop)}"
            yield _Value(what, name, number, later, guards, set_)


def _of_expressions(scope: Scope) -> Iterator[_Value]:
    """What a variable is set to, or what is stored, by an expression with calls of mathematics or divisions."""
    tree, body = scope.tree, scope.function.body
    for node in tree.nodes("declaration", "expression_statement", within=body):
        if node.parent.type != "compound_statement":
            continue
        unknown = {declared.name for declared in tree.declared_by(node)} if node.type == "declaration" else set()
        for like, value in (*assigned(scope, node), *_stored(scope, node)):
            if _costs(tree, value) and not any(tree.text(use) in unknown for use in tree.nodes("identifier", within=value)):
                text = tree.text(value).decode()
                guards = (instead(value, cast(like, b"@text@")),)
                yield _Value(f"the value {shown(tree, value)}", text, like, node, guards, simple=True)


def _stored(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """What a statement stores into an array that is a parameter."""
    store = node.named_children[0] if node.named_children else None
    if store is None or store.type != "assignment_expression":
        return
    left, right = (store.child_by_field_name(field) for field in ("left", "right"))
    plain = scope.tree.text(store.child_by_field_name("operator")) == b"="
    array = left.child_by_field_name("argument") if left.type == "subscript_expression" else None
    for param in scope.function.params:
        if plain and array is not None and param.stars == 1 and scope.tree.text(array) == param.name:
            if param.type in (*_REAL, *_WHOLE):
                yield param, right


def _costs(tree: Tree, value: Node) -> bool:
    """Whether an expression divides or calls mathematics, and changes nothing."""
    if any(True for _ in tree.nodes(*CHANGES, "pointer_expression", within=value)):
        return False
    calls = [tree.text(call.child_by_field_name("function")) for call in tree.nodes("call_expression", within=value)]
    if not all(_CALLS_OF_MATHS.fullmatch(name) for name in calls):
        return False
    signs = (tree.text(node.child_by_field_name("operator")) for node in tree.nodes("binary_expression", within=value))
    return bool(calls) or any(sign in (b"/", b"%") for sign in signs)


def _texts(scope: Scope, value: _Value) -> Iterator[str]:
    """The formulas of one operation on what is known where a value is, the simplest first."""
    known = [*_known(scope, value)]
    reals, wholes = ([text for text, real in known if real is kind][:MOST_KNOWN] for kind in (True, False))
    real_constants, whole_constants = _constants(scope)
    params = [
        param.name.decode() for param in scope.function.params
        if scope.function.kernel and not param.stars and param.type in _WHOLE
    ]  # fmt: skip
    if is_real(value.like):
        kinds = [(_OF_REALS, [(text,) for text in reals]), (_OF_TWO_REALS, combinations(reals, 2)),
                 (_OF_REAL_AND_CONSTANT, [(a, b) for b in real_constants for a in reals])]  # fmt: skip
    else:
        to_wholes = [(a, b) for b in real_constants or ["1.0f"] for a in reals]
        kinds = [(_OF_WHOLES, [(text,) for text in wholes]), (_OF_TWO_WHOLES, combinations(wholes, 2)),
                 (_OF_WHOLE_AND_CONSTANT, [(a, b) for b in (*whole_constants, *params) for a in wholes]),
                 (_TO_WHOLE, to_wholes)]  # fmt: skip
    kind = value.like.type.decode()
    for forms, operands in kinds:
        for chosen in operands:
            for form in forms:
                text = form.format(*(one if form in _TO_WHOLE or is_real(value.like) else f"({kind})({one})" for one in chosen))
                if not (value.simple and re.search(r"[/%]|\w\(", form)):
                    yield f"({text})"


def _known(scope: Scope, value: _Value) -> Iterator[tuple[str, bool]]:
    """The variables and loads that a formula may use, and whether each is a real number."""
    own = {value.like.name} if not value.simple else set()
    uniform = scope.function.params if scope.function.kernel else ()
    visible = [number for number in scope.visible_from(value.before) if number not in uniform]
    visible = [number for number in visible if number.name not in value.hidden | own]
    for number in visible[:MOST_KNOWN]:
        if number.type in (*_REAL, *_WHOLE):
            yield number.name.decode(), is_real(number)
    names = {number.name for number in visible} | {param.name for param in scope.function.params}
    seen = set()
    for load in scope.tree.nodes("subscript_expression", within=scope.function.body):
        text, kind = scope.tree.text(load), _kind_of(scope, load)
        used = {scope.tree.text(use) for use in scope.tree.nodes("identifier", within=load)}
        builtin = {b"threadIdx", b"blockIdx", b"blockDim"}
        if kind is None or text in seen or _is_stored(load) or not used <= names | builtin:
            continue
        seen.add(text)
        yield text.decode(), kind in _REAL


def _kind_of(scope: Scope, load: Node) -> bytes | None:
    """The type of what is loaded from a parameter, where it is a number's."""
    array = scope.tree.text(load.child_by_field_name("argument"))
    kinds = [param.type for param in scope.function.params if param.stars == 1 and param.name == array]
    return kinds[0] if kinds and kinds[0] in (*_REAL, *_WHOLE) else None


def _is_stored(load: Node) -> bool:
    parent = load.parent
    stored = parent.type == "assignment_expression" and parent.child_by_field_name("left").id == load.id
    return stored or parent.type in ("update_expression", "pointer_expression")


def _constants(scope: Scope) -> tuple[list[str], list[str]]:
    """The numbers in a function, without 0 and 1: real ones, and whole ones."""
    found = dict.fromkeys(
        scope.tree.text(node).decode() for node in scope.tree.nodes("number_literal", within=scope.function.body)
    )
    real = [text for text in found if re.fullmatch(r"\d*\.\d*(?:e-?\d+)?f?", text) and text.rstrip("f") not in ("0.0", "1.0")]
    whole = [text for text in found if re.fullmatch(r"\d{1,9}", text) and text not in ("0", "1")]
    return real[:MOST_CONSTANTS], whole[:MOST_CONSTANTS]


def _set_in(tree: Tree, loop: Node) -> frozenset[bytes]:
    """The variables that a loop assigns or counts."""
    targets = [node.child_by_field_name("left") for node in tree.nodes("assignment_expression", within=loop)]
    targets += [node.child_by_field_name("argument") for node in tree.nodes("update_expression", within=loop)]
    return frozenset(tree.text(node) for node in targets if node is not None and node.type == "identifier")


def _following(loop: Node) -> Node | None:
    """The statement after a loop in its block."""
    if loop.parent.type != "compound_statement":
        return None
    later = loop.next_named_sibling
    while later is not None and later.type == "comment":
        later = later.next_named_sibling
    return later


def _uses_after(tree: Tree, name: bytes, loop: Node) -> Iterator[Node]:
    return (use for use in tree.uses(name, within=loop.parent) if use.start_byte >= loop.end_byte)
