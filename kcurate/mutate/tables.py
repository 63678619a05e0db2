"""Tables that a side reads though each entry is a formula of its place, which could be computed instead.

A table is a buffer of the side's own: one that begins as a formula, or one that a kernel of the side fills
with an expression of the place and of numbers. Not covered: whether the formula is cheaper than the load
(`kcurate.judge.needless`), tables in shared memory or in variables.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree
from kcurate.mutate.guards import Guard, Part, instead
from kcurate.mutate.numbers_in_scope import is_real
from kcurate.records import Buffer, Launch, Step, steps

_NAME = re.compile(r"[A-Za-z_]\w*")
# What a formula of ours and an expression of C have in common.
_PLAIN = re.compile(r"(?:[A-Za-z_]\w*|[0-9]+|[-+*/%()\s,])+")
_BY_KIND = {"zeros": "0", "ones": "1", "arange": "i"}
# By name: what it holds at the place `i` before the plan, where that is a formula.
Tables = tuple[tuple[str, str | None], ...]
_PLACE, _FUNCTIONS = "i", frozenset({"min", "max"})
# What an entry may be computed with: no loads, no calls.
_ENTRY = frozenset(
    (
        "identifier", "number_literal", "binary_expression", "unary_expression", "parenthesized_expression",
        "conditional_expression", "cast_expression", "type_descriptor", "primitive_type",
        "sized_type_specifier",
    )
)  # fmt: skip


@dataclass(frozen=True)
class _Bound:
    """A kernel of the side, and what its parameters get in every launch."""

    function: Function
    values: Mapping[bytes, str]

    def reading(self, buffer: str) -> list[Declared]:
        """The parameters that get a buffer."""
        return [param for param in self.function.params if self.values.get(param.name) == buffer]


def initial_tables(buffers: Mapping[str, Buffer]) -> Tables:
    """A side's own buffers, and the formula that each holds before the plan."""
    return tuple((name, _initial(buffer)) for name, buffer in buffers.items())


def table_parts(tree: Tree, plan: Sequence[Step], tables: Tables) -> Iterator[Part]:
    """Formulas in place of the loads of each table that is one."""
    kernels = tuple(_bound(tree, plan))
    formulas = {name: text for name, text in tables if text is not None}
    for kernel in kernels:
        formulas |= dict(_filled(tree, kernel, {name for name, text in tables if text is None}))
    for table, formula in formulas.items():
        guards = tuple(guard for kernel in kernels for guard in _computed(tree, kernel, table, formula))
        # Real numbers may well come from a table: only times show whether that is slower.
        real = any(is_real(param) for kernel in kernels for param in kernel.reading(table))
        if guards:
            what = f"the table {table}, where the formula of its entries serves"
            yield Part(what, guards, 1, visible_in_counts=not real)


def _bound(tree: Tree, plan: Sequence[Step]) -> Iterator[_Bound]:
    launches = [step for step in steps(plan) if isinstance(step, Launch)]
    for function in tree.functions():
        of_kernel = [step for step in launches if step.launch.encode() == function.name]
        if not function.kernel or any(len(step.args) != len(function.params) for step in of_kernel):
            continue
        values = {}
        for at, param in enumerate(function.params):
            passed = {str(step.args[at]) for step in of_kernel}
            if len(passed) == 1:
                values[param.name] = passed.pop()
        yield _Bound(function, values)


def _initial(buffer: Buffer) -> str | None:
    """What a buffer of one axis holds at the place `i` before the plan, where that is a formula."""
    init = buffer.init
    if buffer.role != "in" or init is None or len(buffer.shape) != 1:
        return None
    if init.kind in _BY_KIND and not init.params:
        return _BY_KIND[init.kind]
    text = str(init.params.get("value", "")) if set(init.params) == {"value"} else ""
    text = re.sub(r"\bi0\b", _PLACE, text)
    return text if init.kind == "formula" and _PLAIN.fullmatch(text) else None


def _filled(tree: Tree, kernel: _Bound, buffers: Collection[str]) -> Iterator[tuple[str, str]]:
    """The buffers that a kernel fills with an expression of the place, in terms of the plan's names."""
    for param in kernel.function.params:
        table = kernel.values.get(param.name, "")
        uses = list(tree.uses(param.name, within=kernel.function.body))
        if table not in buffers or len(uses) != 1:
            continue
        target = uses[0].parent
        store = target.parent if target.type == "subscript_expression" else None
        if store is None or store.type != "assignment_expression" or tree.text(store).count(b"=") != 1:
            continue
        place, value = _index(target), store.child_by_field_name("right")
        if place is None or place.type != "identifier" or store.child_by_field_name("left").id != target.id:
            continue
        names = {tree.text(place): _PLACE}
        names |= {scalar.name: kernel.values.get(scalar.name, "") for scalar in _scalars(kernel)}
        text = _renamed(tree, value, names)
        if text is not None:
            yield table, text


def _scalars(kernel: _Bound) -> list[Declared]:
    return [param for param in kernel.function.params if not param.stars and not param.sizes]


def _index(subscript: Node) -> Node | None:
    listed = next((node for node in subscript.children if node.type == "subscript_argument_list"), None)
    return listed.named_children[0] if listed is not None and listed.named_children else None


def _renamed(tree: Tree, value: Node, names: Mapping[bytes, str]) -> str | None:
    """An expression with other names; None where it has a name or an operation that has none."""
    text, at = "", value.start_byte
    for node in tree.nodes(within=value):
        if node.is_named and node.type not in _ENTRY:
            return None
        if node.type == "identifier":
            name = names.get(tree.text(node), "")
            if not _NAME.fullmatch(name):
                return None
            text += tree.source[at : node.start_byte].decode() + name
            at = node.end_byte
    return text + tree.source[at : value.end_byte].decode()


def _computed(tree: Tree, kernel: _Bound, table: str, formula: str) -> Iterator[Guard]:
    """The loads of a kernel from a table, and the formula instead of each."""
    by_value = {value: name.decode() for name, value in kernel.values.items()}
    wanted = set(_NAME.findall(formula)) - {_PLACE, *_FUNCTIONS}
    types = {"int", "unsigned", "float", "double", "long", "short", "char", "bool"}
    if not wanted - types <= by_value.keys():
        return
    for param in kernel.reading(table):
        for use in tree.uses(param.name, within=kernel.function.body):
            load, place = (
                use.parent,
                _index(use.parent) if use.parent.type == "subscript_expression" else None,
            )
            if place is None or is_changed(tree, load, place):
                continue

            def renamed(match: re.Match[str], place: Node = place) -> str:
                if match[0] == _PLACE:
                    return f"((long long)({tree.text(place).decode()}))"
                return by_value.get(match[0], match[0])

            yield instead(load, f"({param.type.decode()})({_NAME.sub(renamed, formula)})")


def is_changed(tree: Tree, load: Node, place: Node) -> bool:
    """Whether an element is stored into where it seems to be loaded, or its place changes something."""
    parent = load.parent
    stored = parent.type == "assignment_expression" and parent.child_by_field_name("left").id == load.id
    stored |= parent.type in ("update_expression", "pointer_expression")
    changing = ("update_expression", "assignment_expression", "call_expression")
    return stored or any(True for _ in tree.nodes(*changing, within=place))
