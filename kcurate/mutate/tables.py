"""Lookup tables whose entries are a formula of the index, so that kernels could compute them instead.

A table is a buffer of the side (not of the problem) whose initial contents are a formula, or that one of the
side's kernels fills with an expression of the index and scalars. Example: with `t[i] = i / n;` in one kernel,
`y[i] = t[k];` in another becomes `y[i] = (int)((long long)(k) / n);`. Not covered: whether the formula is
cheaper than the load (`kcurate.judge.needless`), tables in shared memory or in variables.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree
from kcurate.mutate.guards import Guard, Part, contains, replace_guard
from kcurate.mutate.numbers_in_scope import is_real
from kcurate.records import Buffer, Launch, Step, steps

_NAME = re.compile(r"[A-Za-z_]\w*")
# The syntax that formulas of a problem file and expressions of C share.
_PLAIN_FORMULA = re.compile(r"(?:[A-Za-z_]\w*|[0-9]+|[-+*/%()\s,])+")
_BY_KIND = {"zeros": "0", "ones": "1", "arange": "i"}
# Pairs of a buffer's name and the formula of its element `i` before the plan runs (None: no formula).
Tables = tuple[tuple[str, str | None], ...]
_INDEX, _FUNCTIONS = "i", frozenset({"min", "max"})
# Syntax nodes allowed in the formula of an entry: no loads, no calls.
_ENTRY_NODES = frozenset(
    (
        "identifier", "number_literal", "binary_expression", "unary_expression", "parenthesized_expression",
        "conditional_expression", "cast_expression", "type_descriptor", "primitive_type",
        "sized_type_specifier",
    )
)  # fmt: skip


@dataclass(frozen=True)
class _Kernel:
    """A kernel of the side, and the arguments that are the same in every launch, by parameter."""

    function: Function
    values: Mapping[bytes, str]

    def reading(self, buffer: str) -> list[Declared]:
        """The parameters that a buffer is passed to."""
        return [param for param in self.function.params if self.values.get(param.name) == buffer]


def initial_tables(buffers: Mapping[str, Buffer]) -> Tables:
    """A side's own buffers, each with the formula of its initial contents, if there is one."""
    return tuple((name, _initial_formula(buffer)) for name, buffer in buffers.items())


def table_parts(tree: Tree, plan: Sequence[Step], tables: Tables) -> Iterator[Part]:
    """For each table, the part that replaces its loads by the formula of its entries."""
    kernels = tuple(_kernels(tree, plan))
    formulas = {name: text for name, text in tables if text is not None}
    for kernel in kernels:
        formulas |= dict(_filled_tables(tree, kernel, {name for name, text in tables if text is None}))
    for table, formula in formulas.items():
        guards = tuple(guard for kernel in kernels for guard in _formula_guards(tree, kernel, table, formula))
        # A table of floats may be faster than the formula: only times can tell.
        real = any(is_real(param) for kernel in kernels for param in kernel.reading(table))
        if guards:
            label = f"the table {table}, where the formula of its entries serves"
            yield Part(label, guards, 1, visible_in_counts=not real)


def _kernels(tree: Tree, plan: Sequence[Step]) -> Iterator[_Kernel]:
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
        yield _Kernel(function, values)


def _initial_formula(buffer: Buffer) -> str | None:
    """The formula of element `i` of a one-dimensional input buffer, if its initial contents have one."""
    init = buffer.init
    if buffer.role != "in" or init is None or len(buffer.shape) != 1:
        return None
    if init.kind in _BY_KIND and not init.params:
        return _BY_KIND[init.kind]
    text = str(init.params.get("value", "")) if set(init.params) == {"value"} else ""
    text = re.sub(r"\bi0\b", _INDEX, text)
    return text if init.kind == "formula" and _PLAIN_FORMULA.fullmatch(text) else None


def _filled_tables(tree: Tree, kernel: _Kernel, buffers: Collection[str]) -> Iterator[tuple[str, str]]:
    """The buffers that a kernel fills with an expression of the index, in terms of the plan's names."""
    for param in kernel.function.params:
        table = kernel.values.get(param.name, "")
        uses = list(tree.uses(param.name, within=kernel.function.body))
        if table not in buffers or len(uses) != 1:
            continue
        target = uses[0].parent
        store = target.parent if target.type == "subscript_expression" else None
        if store is None or store.type != "assignment_expression" or tree.text(store).count(b"=") != 1:
            continue
        index, value = _index(target), store.child_by_field_name("right")
        if index is None or index.type != "identifier" or store.child_by_field_name("left").id != target.id:
            continue
        names = {tree.text(index): _INDEX}
        names |= {scalar.name: kernel.values.get(scalar.name, "") for scalar in _scalars(kernel)}
        text = _with_names(tree, value, names)
        if text is not None:
            yield table, text


def _scalars(kernel: _Kernel) -> list[Declared]:
    return [param for param in kernel.function.params if not param.stars and not param.sizes]


def _index(subscript: Node) -> Node | None:
    listed = next((node for node in subscript.children if node.type == "subscript_argument_list"), None)
    return listed.named_children[0] if listed is not None and listed.named_children else None


def _with_names(tree: Tree, value: Node, names: Mapping[bytes, str]) -> str | None:
    """An expression with its identifiers replaced by `names`; None if one is missing or it loads or calls."""
    text, at = "", value.start_byte
    for node in tree.nodes(within=value):
        if node.is_named and node.type not in _ENTRY_NODES:
            return None
        if node.type == "identifier":
            name = names.get(tree.text(node), "")
            if not _NAME.fullmatch(name):
                return None
            text += tree.source[at : node.start_byte].decode() + name
            at = node.end_byte
    return text + tree.source[at : value.end_byte].decode()


def _formula_guards(tree: Tree, kernel: _Kernel, table: str, formula: str) -> Iterator[Guard]:
    """Guards that replace a kernel's loads from a table by the formula, if its scalars are arguments."""
    by_value = {value: name.decode() for name, value in kernel.values.items()}
    names = set(_NAME.findall(formula)) - {_INDEX, *_FUNCTIONS}
    types = {"int", "unsigned", "float", "double", "long", "short", "char", "bool"}
    if not names - types <= by_value.keys():
        return
    for param in kernel.reading(table):
        for use in tree.uses(param.name, within=kernel.function.body):
            load, index = (
                use.parent,
                _index(use.parent) if use.parent.type == "subscript_expression" else None,
            )
            if index is None or is_stored_to(tree, load, index):
                continue

            def renamed(match: re.Match[str], index: Node = index) -> str:
                if match[0] == _INDEX:
                    return f"((long long)({tree.text(index).decode()}))"
                return by_value.get(match[0], match[0])

            yield replace_guard(load, f"({param.type.decode()})({_NAME.sub(renamed, formula)})")


def is_stored_to(tree: Tree, load: Node, index: Node) -> bool:
    """Whether an element is written, or its address is taken, or its index has side effects."""
    parent = load.parent
    stored = parent.type == "assignment_expression" and parent.child_by_field_name("left").id == load.id
    stored |= parent.type in ("update_expression", "pointer_expression")
    return stored or contains(tree, index, "update_expression", "assignment_expression", "call_expression")
