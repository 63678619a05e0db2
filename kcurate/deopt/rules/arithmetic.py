"""Rules on arithmetic: fast-math intrinsics become library functions, float literals become double.

Why each is safe:

- full-precision: a library function is at least as accurate as the intrinsic for every argument, special
  values included (CUDA C++ Programming Guide, "Intrinsic Functions", table of error bounds); results may
  differ by the intrinsic's error, which verification bounds by the problem's tolerance.
- double-literals: `x * 0.5f` becomes `x * 0.5`, so the operation is done in double precision and then
  rounded: never less accurate. Only literals that float represents exactly, next to a name declared float
  (or an element of a float array), in a sum or product assigned to a float variable: no comparison, overload
  or template argument ever sees the wider type.

Not covered: intrinsics with a rounding mode that prevent contraction (`__fadd_rn`), 24-bit multiplication
(the range of its operands is not known from the text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.cuda_source.parse.syntax_tree import Node, Tree, bare
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.records import Side

# Same arguments, same meaning, full precision.
LIBRARY = {
    b"__expf": b"expf", b"__exp10f": b"exp10f", b"__logf": b"logf", b"__log2f": b"log2f",
    b"__log10f": b"log10f", b"__sinf": b"sinf", b"__cosf": b"cosf", b"__tanf": b"tanf",
    b"__sincosf": b"sincosf", b"__tanhf": b"tanhf", b"__powf": b"powf", b"__fsqrt_rn": b"sqrtf",
}  # fmt: skip
QUOTIENTS = (b"__fdividef", b"fdividef", b"__frcp_rn", b"rsqrtf", b"__frsqrt_rn")
_FLOAT = re.compile(rb"(\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fF]\Z")
OPERATORS = frozenset((b"+", b"-", b"*", b"/"))


def full_precision(subject: Subject) -> Side | NotApplicable:
    """Call library functions instead of fast-math intrinsics."""
    defined = {function.name for function in subject.tree.functions()}
    edits = [
        Edit(node.start_byte, node.start_byte + len(name), LIBRARY[name])
        for node, name, _ in subject.tree.calls(*LIBRARY)
        if name not in defined
    ]
    return subject.with_edits([*edits, *_quotients(subject.tree, defined)], "no fast-math intrinsic")


def _quotients(tree: Tree, defined: set[bytes]) -> Iterator[Edit]:
    """Divisions, reciprocals and reciprocal square roots written as operators; arguments stay in place."""
    for node, name, arguments in tree.calls(*QUOTIENTS):
        if name in defined or len(arguments) != (2 if name.endswith(b"fdividef") else 1):
            continue
        start, end = arguments[0].start_byte, arguments[-1].end_byte
        if name.endswith(b"fdividef"):
            yield Edit(node.start_byte, start, b"((float)(")
            yield Edit(arguments[0].end_byte, arguments[1].start_byte, b") / (float)(")
        else:
            yield Edit(node.start_byte, start, b"(1.0f / (" if name == b"__frcp_rn" else b"(1.0f / sqrtf(")
        yield Edit(end, node.end_byte, b"))")


def double_literals(subject: Subject) -> Side | NotApplicable:
    """Remove the `f` from exact literals in float sums and products that are assigned to a float."""
    tree, edits = subject.tree, []
    for function in tree.functions():
        floats = _floats(tree, function.node)
        for node in tree.nodes("number_literal", within=function.body):
            text, parent = tree.text(node), node.parent
            if not _FLOAT.match(text) or parent.type != "binary_expression" or not _exact(text):
                continue
            arithmetic = tree.text(parent.children[1]) in OPERATORS
            left, right = parent.child_by_field_name("left"), parent.child_by_field_name("right")
            other = right if left == node else left
            if arithmetic and _is_float(tree, other, floats) and _stored(tree, parent, floats):
                plain = text[:-1] if b"." in text or b"e" in text.lower() else text[:-1] + b".0"
                edits.append(Edit(node.start_byte, node.end_byte, plain))
    return subject.with_edits(edits, "no exact float literal in a sum or product assigned to a float")


def _exact(text: bytes) -> bool:
    """Whether a literal is non-zero and a multiple of 1/1024 below 2**20, so float holds it exactly."""
    value = float(text[:-1])
    return value != 0 and abs(value) < 2**20 and (value * 1024).is_integer()


def _floats(tree: Tree, function: Node) -> frozenset[bytes]:
    """Names that a function declares only as float, float pointer or float array."""
    kinds: dict[bytes, set[bytes]] = {}
    for node in tree.nodes("declaration", "parameter_declaration", within=function):
        for declaration in tree.declared_by(node):
            kinds.setdefault(declaration.name, set()).add(declaration.type)
    return frozenset(name for name, types in kinds.items() if types == {b"float"})


def _is_float(tree: Tree, node: Node, floats: frozenset[bytes]) -> bool:
    """Whether an expression is one of these names, or an element of one."""
    node = bare(node)
    while node.type == "subscript_expression":
        node = node.child_by_field_name("argument")
    return node.type == "identifier" and tree.text(node) in floats


def _stored(tree: Tree, node: Node, floats: frozenset[bytes]) -> bool:
    """Whether an expression is an operand of arithmetic whose result is stored in a float variable."""
    parent = node.parent
    while parent.type in ("parenthesized_expression", "binary_expression"):
        if parent.type == "binary_expression" and tree.text(parent.children[1]) not in OPERATORS:
            return False
        parent = parent.parent
    if parent.type == "assignment_expression":
        return _is_float(tree, parent.child_by_field_name("left"), floats)
    if parent.type == "init_declarator":
        initialised = (local for local in tree.declared_by(parent.parent) if local.value is not None)
        return any(
            local.name in floats and not local.sizes and local.node.parent == parent for local in initialised
        )
    return False


RULES: tuple[Rule, ...] = (
    Rule("full-precision", "fast-math-intrinsics", "hardware approximations", full_precision),
    Rule("double-literals", "strength-reduction", "single-precision literals", double_literals),
)
