"""One-operation formulas that may compute the same value as a loop or a costly expression.

The result of a loop, or of an expression with divisions or math calls, is compared with every one-operation
formula over values known before it. Each formula is a probe; one run on the emulator evaluates all of them.
Only a formula that was equal in every evaluation is then tried in place of the original. Example:

    unsigned a = x[i], s = 0;
    for (unsigned b = r[i]; b; b >>= 1, a <<= 1) if (b & 1) s += a;    ->    s = x[i] * r[i];

Not covered: earlier values instead of values computed outside loops (`kcurate.mutate.replacements`), formulas
of several operations, values in arrays and structs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree
from kcurate.mutate.guards import (
    CHANGES,
    LOOPS,
    SWITCH,
    Guard,
    Part,
    cast,
    contains,
    has_side_effects,
    names_in,
    one_line,
    replace_guard,
    skip_guard,
)
from kcurate.mutate.numbers_in_scope import Scope, is_real
from kcurate.mutate.replacements import assigned
from kcurate.mutate.tables import is_stored_to

# Formulas come after all other parts.
RANK = 9
# The most probed formulas of a side and of one value, and the most known values and constants in them.
MOST_FORMULAS, MOST_OF_A_VALUE, MOST_KNOWN, MOST_CONSTANTS = 250, 160, 5, 3
# Formulas by their operands, {0} and {1}: one number, a number and a constant, two numbers.
_OF_FLOAT = (
    "{0}", "-{0}", "fabsf({0})", "{0} * {0}", "sqrtf({0})", "rsqrtf({0})", "1.0f / {0}", "expf({0})",
    "logf({0})", "sinf({0})", "cosf({0})", "tanhf({0})",
)  # fmt: skip
_OF_FLOAT_AND_CONSTANT = ("{0} * {1}", "{0} / {1}", "{0} + {1}", "{0} - {1}")
_OF_TWO_FLOATS = (*_OF_FLOAT_AND_CONSTANT, "{1} / {0}", "{1} - {0}")
_OF_INTEGER = ("{0}", "-{0}")
_OF_INT_AND_CONSTANT = (
    "{0} * {1}", "{0} + {1}", "{0} - {1}", "({1} > 0 ? {0} / {1} : 0)", "({1} > 0 ? {0} % {1} : 0)",
)  # fmt: skip
_OF_TWO_INTEGERS = (
    *_OF_INT_AND_CONSTANT, "{1} - {0}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}",
    "({0} > 0 ? {1} / {0} : 0)", "({0} > 0 ? {1} % {0} : 0)",
)  # fmt: skip
_FLOAT_TO_INTEGER = ("(int)({0})", "(int)({0} * {1})", "(int)({0} / {1})")
# Constants of a formula. 0 and 1 are left out: with them it reduces to a simpler formula.
_FLOAT_LITERAL = re.compile(r"(?![01]\.0*f?$)\d*\.\d*(?:e-?\d+)?f?")
_INT_LITERAL = re.compile(r"(?![01]$)\d{1,9}")
_DIVIDES_OR_CALLS = re.compile(r"[/%]|\w\(")
_MATH = re.compile(
    rb"_*(?:sqrt|rsqrt|cbrt|exp2|exp10|expm1|exp|log2|log10|log1p|log|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh"
    rb"|tanh|pow|fmod|remainder|floor|ceil|trunc|hypot|erf|float_as_u?int|u?int_as_float)f?"
)
_FLOAT_TYPES = (b"float", b"double")
_INT_TYPES = (b"int", b"unsigned", b"unsigned int", b"long long", b"unsigned long long")
_NUMBER_TYPES = (*_FLOAT_TYPES, *_INT_TYPES)


@dataclass(frozen=True)
class _Value:
    """A number that a side computes: its expression `text`, and `like`, a variable of its type.

    `at`: a probe goes before this statement, or after it if it is a loop. `guards`: replace the value by
    `@text@`, the placeholder for a formula. `hidden`: variables that have changed since. `cheap`: only
    formulas without divisions and calls would be cheaper. `start`: a loop variable's initial value, for
    formulas of the form start + a * b.
    """

    label: str
    text: str
    like: Declared
    at: Node
    guards: tuple[Guard, ...]
    hidden: frozenset[bytes] = frozenset()
    cheap: bool = False
    start: str = ""


def formulas(tree: Tree) -> Iterator[Part]:
    """The candidate parts of all functions, each with its probe."""
    for function in tree.functions():
        scope = Scope(tree, function)
        for value in (*_values_after_loops(scope), *_assigned_values(scope)):
            is_float, after_loop = is_real(value.like), value.at.type in LOOPS
            kind = "real" if is_float else "whole"
            probe_at = value.at.end_byte if after_loop else value.at.start_byte
            for text in islice(_formulas_for(scope, value), MOST_OF_A_VALUE):
                guards = tuple(
                    Guard(guard.start, guard.end, guard.before.replace("@text@", text), guard.after)
                    for guard in value.guards
                )
                probe = Guard(probe_at, probe_at, f" kcu_probe_{kind}(@, {value.text}, {text});", "")
                label = f"{value.label}, where {text} serves"
                yield Part(label, guards, RANK, not value.cheap, may_round=is_float, probe=probe)


def _values_after_loops(scope: Scope) -> Iterator[_Value]:
    """The variables that a loop assigns and that code after it in the same block reads."""
    tree = scope.tree
    for loop in tree.nodes(*LOOPS, within=scope.function.body):
        changed = assigned_in(tree, loop)
        for number in scope.visible_from(loop) if loop.parent.type == "compound_statement" else ():
            if number.name in changed and is_read_after(tree, number.name, loop):
                name = number.name.decode()
                store = f" if ({SWITCH}) {name} = {cast(number, b'@text@')};"
                # After the loop, since a pragma may stand before the next one.
                guards = (skip_guard(loop), Guard(loop.end_byte, loop.end_byte, store, ""))
                label = f"the value of {name} after {one_line(tree, loop)}"
                start = _initial_expression(tree, number, changed)
                yield _Value(label, name, number, loop, guards, changed, start=start)


def _initial_expression(tree: Tree, number: Declared, changed: Collection[bytes]) -> str:
    """A variable's initialiser, if it is not constant and can be evaluated again after the loop; else ""."""
    value = number.value
    if value is None or has_side_effects(tree, value):
        return ""
    names = names_in(tree, value)
    return f"({tree.text(value).decode()})" if names and names.isdisjoint(changed) else ""


def _assigned_values(scope: Scope) -> Iterator[_Value]:
    """The costly expressions that are assigned to a variable or stored into an array."""
    tree = scope.tree
    helpers = {function.name for function in tree.functions() if _takes_numbers_only(function)}
    for node in tree.nodes("declaration", "expression_statement", within=scope.function.body):
        if node.parent.type != "compound_statement":
            continue
        declared = tree.declared_by(node) if node.type == "declaration" else ()
        declared_here = {variable.name for variable in declared}
        for like, value in (*assigned(scope, node), *_stored_values(scope, node)):
            names = names_in(tree, value)
            if _is_costly_expression(scope, value, helpers) and names.isdisjoint(declared_here):
                text = tree.text(value).decode()
                guards = (replace_guard(value, cast(like, b"@text@")),)
                cheap = names.isdisjoint(helpers)
                yield _Value(f"the value {one_line(tree, value)}", text, like, node, guards, cheap=cheap)


def _takes_numbers_only(function: Function) -> bool:
    """Whether a device function takes only numbers by value."""
    params = function.params
    plain = all(not param.stars and not param.sizes and not param.reference for param in params)
    return plain and not function.kernel and all(param.type in _NUMBER_TYPES for param in params)


def _stored_values(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """The array parameter and the expression of a statement such as `y[i] = ...;`."""
    tree, store = scope.tree, node.named_children[0] if node.named_children else None
    if store is None or store.type != "assignment_expression":
        return
    left, operator, right = (store.child_by_field_name(field) for field in ("left", "operator", "right"))
    if left.type == "subscript_expression" and tree.text(operator) == b"=":
        array = _array_parameter(scope, left)
        yield from [(array, right)] if array is not None else []


def _is_costly_expression(scope: Scope, value: Node, helpers: Collection[bytes]) -> bool:
    """Whether an expression has no side effects, and a call or a division by a runtime value.

    `helpers`: functions that it may call besides math functions.
    """
    tree = scope.tree
    if contains(tree, value, *CHANGES, "pointer_expression"):
        return False
    functions = (call.child_by_field_name("function") for call in tree.nodes("call_expression", within=value))
    calls = [tree.text(function) for function in functions]
    if not all(name in helpers or _MATH.fullmatch(name) for name in calls):
        return False
    operations = [
        [operation.child_by_field_name(field) for field in ("operator", "right")]
        for operation in tree.nodes("binary_expression", within=value)
    ]
    variables = {number.name for number in scope.numbers if b"constexpr" not in number.qualifiers}
    divisors = [right for operator, right in operations if tree.text(operator) in (b"/", b"%")]
    names = frozenset[bytes]().union(*(names_in(tree, right) for right in divisors))
    return bool(calls) or not names.isdisjoint(variables)


def _formulas_for(scope: Scope, value: _Value) -> Iterator[str]:
    """The formulas over values known where `value` is computed, simplest first, as C expressions."""
    forms = [*(_float_formulas(scope, value) if is_real(value.like) else _integer_formulas(scope, value))]
    for form, operands in forms:
        if not (value.cheap and _DIVIDES_OR_CALLS.search(form)):
            yield f"({form.format(*operands)})"
    for form, operands in forms if value.start else ():
        if len(operands) == 2:
            yield f"({value.start} + {form.format(*operands)})"


def _float_formulas(scope: Scope, value: _Value) -> Iterator[tuple[str, Sequence[str]]]:
    reals = [text for text, real in _known_values(scope, value) if real][:MOST_KNOWN]
    constants = _constants(scope, _FLOAT_LITERAL)
    yield from ((form, (text,)) for text in reals for form in _OF_FLOAT)
    yield from ((form, pair) for pair in combinations(reals, 2) for form in _OF_TWO_FLOATS)
    yield from (
        (form, (text, constant))
        for constant, text in product(constants, reals)
        for form in _OF_FLOAT_AND_CONSTANT
    )


def _integer_formulas(scope: Scope, value: _Value) -> Iterator[tuple[str, Sequence[str]]]:
    # Operands are cast to the value's type, since signed and unsigned division differ.
    type_name, known = value.like.type.decode(), [*_known_values(scope, value)]
    wholes = [f"({type_name})({text})" for text, real in known if not real][:MOST_KNOWN]
    reals = [text for text, real in known if real][:MOST_KNOWN]
    params = scope.function.params if scope.function.kernel else ()
    scalars = (param for param in params if not param.stars and not param.sizes)
    sizes = [param.name.decode() for param in scalars if param.type in _INT_TYPES]
    constants = [f"({type_name})({text})" for text in (*_constants(scope, _INT_LITERAL), *sizes)]
    factors = _constants(scope, _FLOAT_LITERAL) or ["1.0f"]
    yield from ((form, (text,)) for text in wholes for form in _OF_INTEGER)
    yield from ((form, pair) for pair in combinations(wholes, 2) for form in _OF_TWO_INTEGERS)
    yield from (
        (form, (text, constant))
        for constant, text in product(constants, wholes)
        for form in _OF_INT_AND_CONSTANT
    )
    yield from (
        (form, (text, factor)) for factor, text in product(factors, reals) for form in _FLOAT_TO_INTEGER
    )


def _known_values(scope: Scope, value: _Value) -> Iterator[tuple[str, bool]]:
    """The variables and loads that a formula may use, and whether each is `float` or `double`."""
    tree, params = scope.tree, scope.function.params
    # A kernel's parameters are equal in all threads, so they replace no thread's own value.
    uniform = params if scope.function.kernel else ()
    hidden = value.hidden if value.cheap else value.hidden | {value.like.name}
    visible = [number for number in scope.visible_from(value.at) if number.name not in hidden]
    numbers = [number for number in visible if number not in uniform and number.type in _NUMBER_TYPES]
    yield from ((number.name.decode(), is_real(number)) for number in numbers[:MOST_KNOWN])
    names = {number.name for number in (*visible, *params)} | {b"threadIdx", b"blockIdx", b"blockDim"}
    seen: set[bytes] = set()
    for load in tree.nodes("subscript_expression", within=scope.function.body):
        text, array = tree.text(load), _array_parameter(scope, load)
        used = names_in(tree, load)
        costs = value.cheap and _DIVIDES_OR_CALLS.search(text.decode())
        if array is None or costs or text in seen or not used <= names or is_stored_to(tree, load, load):
            continue
        seen.add(text)
        yield text.decode(), array.type in _FLOAT_TYPES


def _array_parameter(scope: Scope, subscript: Node) -> Declared | None:
    """The indexed array, if it is a pointer parameter to numbers; else None."""
    name = scope.tree.text(subscript.child_by_field_name("argument"))
    arrays = [param for param in scope.function.params if param.stars == 1 and param.name == name]
    return arrays[0] if arrays and arrays[0].type in _NUMBER_TYPES else None


def _constants(scope: Scope, pattern: re.Pattern[str]) -> list[str]:
    """The first distinct number literals of a function that match a pattern."""
    numbers = scope.tree.nodes("number_literal", within=scope.function.body)
    literals = dict.fromkeys(scope.tree.text(node).decode() for node in numbers)
    return [text for text in literals if pattern.fullmatch(text)][:MOST_CONSTANTS]


def assigned_in(tree: Tree, loop: Node) -> frozenset[bytes]:
    """The variables that a node assigns, increments or decrements."""
    targets = [node.child_by_field_name("left") for node in tree.nodes("assignment_expression", within=loop)]
    targets += [node.child_by_field_name("argument") for node in tree.nodes("update_expression", within=loop)]
    return frozenset(tree.text(node) for node in targets if node is not None and node.type == "identifier")


def is_read_after(tree: Tree, name: bytes, loop: Node) -> bool:
    """Whether code after a loop in the same block uses a variable."""
    return any(use.start_byte >= loop.end_byte for use in tree.uses(name, within=loop.parent))
