"""Formulas of one operation that may give what a side computes in a longer way.

A value that a loop leaves, or that an expression with divisions or calls of mathematics has, is compared
with every formula of one operation on values that are known before: on the emulator by a probe each, all of
them in one run. Only a formula that always gave the same value is tried in its place. Example:

    unsigned a = x[i], s = 0;
    for (unsigned b = r[i]; b; b >>= 1, a <<= 1) if (b & 1) s += a;    ->    s = x[i] * r[i];

Not covered: earlier values in place of what no loop computes (`kcurate.mutate.replacements`), formulas of
several operations, values in arrays and structs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree
from kcurate.mutate.guards import LOOPS, SWITCH, Guard, Part, cast, instead, shown, skipped
from kcurate.mutate.numbers_in_scope import Scope, is_real
from kcurate.mutate.replacements import assigned
from kcurate.mutate.tables import is_changed

# Numbered after all other parts.
RANK = 9
# The most formulas of a side that are probed, of one value, and the known values and constants in them.
MOST_FORMULAS, MOST_OF_A_VALUE, MOST_KNOWN, MOST_CONSTANTS = 250, 160, 5, 3
# By what a formula is of: one number, two numbers, a number and a constant.
_OF_REALS = (
    "{0}", "-{0}", "fabsf({0})", "{0} * {0}", "sqrtf({0})", "rsqrtf({0})", "1.0f / {0}", "expf({0})",
    "logf({0})", "sinf({0})", "cosf({0})", "tanhf({0})",
)  # fmt: skip
_WITH_A_REAL = ("{0} * {1}", "{0} / {1}", "{0} + {1}", "{0} - {1}")
_OF_TWO_REALS = (*_WITH_A_REAL, "{1} / {0}", "{1} - {0}")
_OF_WHOLES = ("{0}", "-{0}")
_WITH_A_WHOLE = (
    "{0} * {1}", "{0} + {1}", "{0} - {1}", "({1} > 0 ? {0} / {1} : 0)", "({1} > 0 ? {0} % {1} : 0)",
)  # fmt: skip
_OF_TWO_WHOLES = (
    *_WITH_A_WHOLE, "{1} - {0}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "({0} > 0 ? {1} / {0} : 0)",
    "({0} > 0 ? {1} % {0} : 0)",
)  # fmt: skip
_TO_WHOLE = ("(int)({0})", "(int)({0} * {1})", "(int)({0} / {1})")
# Constants that a formula may have; with 0 and 1 it would be another formula.
_REAL_NUMBER = re.compile(r"(?![01]\.0*f?$)\d*\.\d*(?:e-?\d+)?f?")
_WHOLE_NUMBER = re.compile(r"(?![01]$)\d{1,9}")
_DIVIDES_OR_CALLS = re.compile(r"[/%]|\w\(")
_MATHS = re.compile(
    rb"_*(?:sqrt|rsqrt|cbrt|exp2|exp10|expm1|exp|log2|log10|log1p|log|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh"
    rb"|tanh|pow|fmod|remainder|floor|ceil|trunc|hypot|erf|float_as_u?int|u?int_as_float)f?"
)
CHANGES = ("assignment_expression", "update_expression", "lambda_expression")
_REAL = (b"float", b"double")
_WHOLE = (b"int", b"unsigned", b"unsigned int", b"long long", b"unsigned long long")


@dataclass(frozen=True)
class _Value:
    """A number that a side computes: its text and type, and where it can be compared.

    `at`: the statement before which, or the loop after which that is; `guards`: what puts `@text@` in its
    place; `hidden`: variables that have changed since; `cheap`: only formulas without divisions and calls are
    worth trying; `start`: what a variable was set to first, to which a formula may add.
    """

    what: str
    text: str
    like: Declared
    at: Node
    guards: tuple[Guard, ...]
    hidden: frozenset[bytes] = frozenset()
    cheap: bool = False
    start: str = ""


def formulas(tree: Tree) -> Iterator[Part]:
    """The candidates of all functions, each with its probe."""
    for function in tree.functions():
        scope = Scope(tree, function)
        for value in (*_left_by_loops(scope), *_of_expressions(scope)):
            real, looped = is_real(value.like), value.at.type in LOOPS
            kind, place = "real" if real else "whole", value.at.end_byte if looped else value.at.start_byte
            for text in islice(_texts(scope, value), MOST_OF_A_VALUE):
                guards = tuple(
                    Guard(guard.start, guard.end, guard.before.replace("@text@", text), guard.after)
                    for guard in value.guards
                )
                probe = Guard(place, place, f" kcu_probe_{kind}(@, {value.text}, {text});", "")
                what = f"{value.what}, where {text} serves"
                yield Part(what, guards, RANK, not value.cheap, rounded=real, probe=probe)


def _left_by_loops(scope: Scope) -> Iterator[_Value]:
    """The variables that a loop changes and that something after it in its block reads."""
    tree = scope.tree
    for loop in tree.nodes(*LOOPS, within=scope.function.body):
        changed = set_in(tree, loop)
        for number in scope.visible_from(loop) if loop.parent.type == "compound_statement" else ():
            if number.name in changed and is_read_after(tree, number.name, loop):
                name = number.name.decode()
                store = f" if ({SWITCH}) {name} = {cast(number, b'@text@')};"
                # After the loop, since a pragma may stand before the next one.
                guards = (skipped(loop), Guard(loop.end_byte, loop.end_byte, store, ""))
                what = f"the value of {name} after {shown(tree, loop)}"
                start = _start(tree, number, changed)
                yield _Value(what, name, number, loop, guards, changed, start=start)


def _start(tree: Tree, number: Declared, changed: Collection[bytes]) -> str:
    """What a variable is declared with, where that is not a constant and can be computed again."""
    value = number.value
    if value is None or any(True for _ in tree.nodes(*CHANGES, "call_expression", within=value)):
        return ""
    used = {tree.text(use) for use in tree.nodes("identifier", within=value)}
    return f"({tree.text(value).decode()})" if used and used.isdisjoint(changed) else ""


def _of_expressions(scope: Scope) -> Iterator[_Value]:
    """What a variable is set to, or what is stored, by an expression that costs more than an operation."""
    tree = scope.tree
    helpers = {function.name for function in tree.functions() if _is_of_numbers(function)}
    for node in tree.nodes("declaration", "expression_statement", within=scope.function.body):
        if node.parent.type != "compound_statement":
            continue
        declared = tree.declared_by(node) if node.type == "declaration" else ()
        unknown = {variable.name for variable in declared}
        for like, value in (*assigned(scope, node), *_stored(scope, node)):
            used = {tree.text(use) for use in tree.nodes("identifier", within=value)}
            if _costs(scope, value, helpers) and used.isdisjoint(unknown):
                text = tree.text(value).decode()
                guards = (instead(value, cast(like, b"@text@")),)
                cheap = used.isdisjoint(helpers)
                yield _Value(f"the value {shown(tree, value)}", text, like, node, guards, cheap=cheap)


def _is_of_numbers(function: Function) -> bool:
    """Whether a function of the side's own has numbers alone as parameters."""
    params = function.params
    plain = all(not param.stars and not param.sizes and not param.reference for param in params)
    return plain and not function.kernel and all(param.type in (*_REAL, *_WHOLE) for param in params)


def _stored(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """What a statement stores into an array that is a parameter."""
    tree, store = scope.tree, node.named_children[0] if node.named_children else None
    if store is None or store.type != "assignment_expression":
        return
    left, sign, right = (store.child_by_field_name(field) for field in ("left", "operator", "right"))
    if left.type == "subscript_expression" and tree.text(sign) == b"=":
        array = _array(scope, left)
        yield from [(array, right)] if array is not None else []


def _costs(scope: Scope, value: Node, helpers: Collection[bytes]) -> bool:
    """Whether an expression changes nothing, and calls something or divides by what a compiler does not know.

    `helpers`: functions that may be called beside those of mathematics.
    """
    tree = scope.tree
    if any(True for _ in tree.nodes(*CHANGES, "pointer_expression", within=value)):
        return False
    functions = (call.child_by_field_name("function") for call in tree.nodes("call_expression", within=value))
    calls = [tree.text(function) for function in functions]
    if not all(name in helpers or _MATHS.fullmatch(name) for name in calls):
        return False
    pairs = [
        [pair.child_by_field_name(field) for field in ("operator", "right")]
        for pair in tree.nodes("binary_expression", within=value)
    ]
    own = {number.name for number in scope.numbers if b"constexpr" not in number.qualifiers}
    divisors = [right for sign, right in pairs if tree.text(sign) in (b"/", b"%")]
    names = {tree.text(use) for right in divisors for use in tree.nodes("identifier", within=right)}
    return bool(calls) or not names.isdisjoint(own)


def _texts(scope: Scope, value: _Value) -> Iterator[str]:
    """The formulas of one operation on what is known where a value is, the simplest first."""
    forms = [*(_to_real(scope, value) if is_real(value.like) else _to_whole(scope, value))]
    for form, operands in forms:
        if not (value.cheap and _DIVIDES_OR_CALLS.search(form)):
            yield f"({form.format(*operands)})"
    for form, operands in forms if value.start else ():
        if len(operands) == 2:
            yield f"({value.start} + {form.format(*operands)})"


def _to_real(scope: Scope, value: _Value) -> Iterator[tuple[str, Sequence[str]]]:
    reals = [text for text, real in _known(scope, value) if real][:MOST_KNOWN]
    constants = _constants(scope, _REAL_NUMBER)
    yield from ((form, (text,)) for text in reals for form in _OF_REALS)
    yield from ((form, two) for two in combinations(reals, 2) for form in _OF_TWO_REALS)
    yield from (
        (form, (text, constant)) for constant, text in product(constants, reals) for form in _WITH_A_REAL
    )


def _to_whole(scope: Scope, value: _Value) -> Iterator[tuple[str, Sequence[str]]]:
    # In the value's own type, as signed and unsigned numbers divide in two ways.
    kind, known = value.like.type.decode(), [*_known(scope, value)]
    wholes = [f"({kind})({text})" for text, real in known if not real][:MOST_KNOWN]
    reals = [text for text, real in known if real][:MOST_KNOWN]
    params = scope.function.params if scope.function.kernel else ()
    scalars = (param for param in params if not param.stars and not param.sizes)
    sizes = [param.name.decode() for param in scalars if param.type in _WHOLE]
    constants = [f"({kind})({text})" for text in (*_constants(scope, _WHOLE_NUMBER), *sizes)]
    factors = _constants(scope, _REAL_NUMBER) or ["1.0f"]
    yield from ((form, (text,)) for text in wholes for form in _OF_WHOLES)
    yield from ((form, two) for two in combinations(wholes, 2) for form in _OF_TWO_WHOLES)
    yield from (
        (form, (text, constant)) for constant, text in product(constants, wholes) for form in _WITH_A_WHOLE
    )
    yield from ((form, (text, factor)) for factor, text in product(factors, reals) for form in _TO_WHOLE)


def _known(scope: Scope, value: _Value) -> Iterator[tuple[str, bool]]:
    """The variables and loads that a formula may use, and whether each is a real number."""
    tree, params = scope.tree, scope.function.params
    # A kernel's parameters are equal in all threads, so they replace no thread's own value.
    uniform = params if scope.function.kernel else ()
    hidden = value.hidden if value.cheap else value.hidden | {value.like.name}
    visible = [number for number in scope.visible_from(value.at) if number.name not in hidden]
    numbers = [number for number in visible if number not in uniform and number.type in (*_REAL, *_WHOLE)]
    yield from ((number.name.decode(), is_real(number)) for number in numbers[:MOST_KNOWN])
    names = {number.name for number in (*visible, *params)} | {b"threadIdx", b"blockIdx", b"blockDim"}
    seen: set[bytes] = set()
    for load in tree.nodes("subscript_expression", within=scope.function.body):
        text, array = tree.text(load), _array(scope, load)
        used = {tree.text(use) for use in tree.nodes("identifier", within=load)}
        costs = value.cheap and _DIVIDES_OR_CALLS.search(text.decode())
        if array is None or costs or text in seen or not used <= names or is_changed(tree, load, load):
            continue
        seen.add(text)
        yield text.decode(), array.type in _REAL


def _array(scope: Scope, subscript: Node) -> Declared | None:
    """The array of numbers that is indexed, if it is a parameter."""
    name = scope.tree.text(subscript.child_by_field_name("argument"))
    found = [param for param in scope.function.params if param.stars == 1 and param.name == name]
    return found[0] if found and found[0].type in (*_REAL, *_WHOLE) else None


def _constants(scope: Scope, pattern: re.Pattern[str]) -> list[str]:
    """Numbers in a function that a pattern takes."""
    numbers = scope.tree.nodes("number_literal", within=scope.function.body)
    found = dict.fromkeys(scope.tree.text(node).decode() for node in numbers)
    return [text for text in found if pattern.fullmatch(text)][:MOST_CONSTANTS]


def set_in(tree: Tree, loop: Node) -> frozenset[bytes]:
    """The variables that a loop assigns or counts."""
    targets = [node.child_by_field_name("left") for node in tree.nodes("assignment_expression", within=loop)]
    targets += [node.child_by_field_name("argument") for node in tree.nodes("update_expression", within=loop)]
    return frozenset(tree.text(node) for node in targets if node is not None and node.type == "identifier")


def is_read_after(tree: Tree, name: bytes, loop: Node) -> bool:
    """Whether something after a loop in its block reads a variable."""
    return any(use.start_byte >= loop.end_byte for use in tree.uses(name, within=loop.parent))
