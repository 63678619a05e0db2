"""Whether the iterations of a loop are independent, and its limit as an expression of the plan.

They are independent if no iteration can see the effects of another: the loop writes no outside variable. It
writes memory only through atomics whose result is unused, or through pointer parameters of which it accesses
only one element per iteration and which no other argument of the launch aliases (the plan names the buffers).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree, ancestors, bare
from kcurate.cuda_source.semantics.builtin_effects import only_reads
from kcurate.deopt.rules.base import Subject
from kcurate.deopt.rules.plans import expression
from kcurate.deopt.rules.ranges import changed_by, literal
from kcurate.deopt.rules.read_only_uses import element_of
from kcurate.deopt.rules.threads import resolved
from kcurate.records import BufferArg, Launch, ValueArg

_LEAVES = ("break_statement", "continue_statement", "return_statement", "goto_statement", "lambda_expression")
_BREAKABLE = ("for_statement", "while_statement", "do_statement", "switch_statement", "for_range_loop")
_WRITES = ("assignment_expression", "update_expression")
ATOMICS = re.compile(rb"atomic(?:Add|Sub|Min|Max|And|Or|Xor|Inc|Dec)\Z")


def only_values(tree: Tree, statements: Sequence[Node]) -> bool:
    """Whether statements only declare variables from pure expressions (nothing shared)."""
    return all(
        node.type == "declaration"
        and b"__shared__" not in node.text
        and not any(True for _ in tree.nodes(*_WRITES, within=node))
        and all(only_reads(name) for _, name, _ in tree.calls(within=node))
        for node in statements
        if node.type != "comment"
    )


def independent(tree: Tree, function: Function, loop: Node, kernel_launches: Sequence[Launch]) -> str | None:
    """Why the iterations of a loop may not be independent; None if they are."""
    body = loop.child_by_field_name("body")
    for node in tree.nodes(*_LEAVES, within=body):
        around = next((outer for outer in ancestors(node) if outer.type in _BREAKABLE), None)
        if node.type not in ("break_statement", "continue_statement") or around == loop:
            return "the loop may end early"
    inside = {declaration.name for declaration in tree.declared(body)}
    pointers = {param.name: place for place, param in enumerate(function.params) if param.stars == 1}
    refusal = _calls(tree, body)
    if refusal is not None:
        return refusal
    written: dict[bytes, Node] = {}
    for node in tree.nodes(*_WRITES, within=body):
        target: Node = changed_by(node)
        base = target
        while base.type in ("subscript_expression", "field_expression", "parenthesized_expression"):
            base = bare(base.child_by_field_name("argument") or base.named_children[0])
        if base.type == "identifier" and base.text in inside and _is_own(tree, body, base.text):
            continue
        if target.type != "subscript_expression" or base.text not in pointers:
            return "iterations of the loop share more than memory behind pointer parameters"
        written[base.text] = target
    for name, target in written.items():
        if any((element_of(use) or use).text != target.text for use in tree.uses(name, within=body)):
            return f"{name.decode('latin-1')} is used in more than one place of the loop"
        if any(aliased(launch, pointers[name]) for launch in kernel_launches):
            return f"{name.decode('latin-1')} may be another argument's buffer"
    return None


def _is_own(tree: Tree, body: Node, name: bytes) -> bool:
    """Whether a name declared in the body is a plain local, so that writes to it stay in the iteration."""
    return all(
        not local.stars and not local.reference and not local.qualifiers & {b"static", b"__shared__"}
        for local in tree.declared(body)
        if local.name == name
    )


def _calls(tree: Tree, body: Node) -> str | None:
    local = {function.name: function for function in tree.functions()}
    for node in tree.nodes("call_expression", within=body):
        function = node.child_by_field_name("function")
        name = function.text if function.type == "identifier" else function.text.split(b"<")[0].strip()
        if ATOMICS.match(name) and node.parent.type == "expression_statement":
            continue
        if name in local:
            params = local[name].params
            by_value = all(not param.stars and not param.reference for param in params)
            if by_value and not any(True for _ in tree.nodes("call_expression", within=local[name].body)):
                continue
        if name in local or name == b"reinterpret_cast" or not only_reads(name):
            return f"the loop calls {name.decode('latin-1')}"
    for node in tree.nodes("pointer_expression", within=body):
        if node.text[:1] == b"&" and bare(node.child_by_field_name("argument")).type == "identifier":
            return "the loop takes an address"
    return None


def aliased(launch: Launch, place: int) -> bool:
    """Whether the buffer passed at a position may also be passed at another."""
    if place >= len(launch.args) or not all(
        isinstance(arg, str | BufferArg | ValueArg) for arg in launch.args
    ):
        return True
    names = [arg.buffer if isinstance(arg, BufferArg) else arg for arg in launch.args]
    return names.count(names[place]) > 1


def plan_expression(subject: Subject, function: Function, launch: Launch, node: Node) -> str | None:
    """An integer expression over parameters in the plan's language; None if it cannot be stated."""
    node = resolved(subject.tree, function, node)
    if node.type == "number_literal":
        value = literal(node.text)
        return None if value is None else str(value)
    if node.type == "binary_expression" and node.children[1].text in (b"+", b"-", b"*", b"/"):
        sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        left, right = (plan_expression(subject, function, launch, side) for side in sides)
        if left is None or right is None:
            return None
        return f"({left} {node.children[1].text.decode()} {right})"
    places = [i for i, param in enumerate(function.params) if param.name == node.text and not param.stars]
    return expression(launch, places[0], subject.problem) if places else None
