"""What a kernel does with each pointer parameter: reads, writes, atomics, from its syntax tree and callees.

Pointers are followed through local pointers, references, casts and device functions. A pointer passed to a
function that the code does not contain counts as read and written. Not covered: how far an index goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter, or_

from kcurate.cuda_source.parse.syntax_tree import Node, below
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.declarations import Setting
from kcurate.cuda_source.semantics.pointer_paths import cast_type

MAX_DEPTH = 6
_READ_ONLY_CALLS = re.compile(
    r"__ld\w*|tex\w+|printf|assert|isnan|isinf|sizeof|__isGlobal|min|max|fmin\w*|fmax\w*"
)
_ATOMIC = re.compile(r"(?:safe|fast)?_?atomic\w*", re.IGNORECASE)
_BRACKETS = frozenset(("parenthesized_expression", "condition_clause", "cast_expression"))


@dataclass(frozen=True)
class Usage:
    """What a kernel does with the memory behind a pointer; `first` is the kind of its first access."""

    read: bool = False
    written: bool = False
    atomic: bool = False
    unknown: bool = False
    first: str = ""

    def __or__(self, other: Usage) -> Usage:
        return Usage(
            self.read or other.read,
            self.written or other.written,
            self.atomic or other.atomic,
            self.unknown or other.unknown,
            self.first or other.first,
        )


_READ = Usage(read=True, first="read")
_WRITE = Usage(written=True, first="write")
_BOTH = Usage(True, True, first="read")


def usage(code: Code, function: Function, name: str) -> Usage:
    """What a function does with the memory behind its parameter `name`."""
    return _Reader(code).parameter(function, name, False, 0)


class _Reader:
    def __init__(self, code: Code) -> None:
        self.code = code
        self.functions = {function.name: function for function in reversed(code.functions)}

    def parameter(self, function: Function, name: str, element: bool, depth: int) -> Usage:
        """What is done with a pointer parameter (with `element`: a reference to what it points to)."""
        accesses: list[tuple[int, Usage]] = []
        queue: list[tuple[str, Setting | None, bool]] = [(name, None, element)]
        for pointer, declared, refers in queue:
            for node in self.code.uses(pointer, function):
                if self.code.declared(pointer, node.start_byte) != declared:
                    continue
                part, alias = self._access(node, refers, depth)
                accesses.append((_when(node), part))
                if alias is not None:
                    target = self.code.of(alias)
                    meant = self.code.declared(target, alias.start_byte)
                    known = any(pointer_seen[:2] == (target, meant) for pointer_seen in queue)
                    if not known:
                        queue.append((target, meant, meant is not None and meant.type[-1:] == "&"))
        return reduce(or_, (part for _, part in sorted(accesses, key=itemgetter(0))), Usage())

    def _access(self, node: Node, reached: bool, depth: int) -> tuple[Usage, Node | None]:
        """One occurrence: what it does, and the name that it gives to the same memory, if any."""
        while (up := node.parent) is not None:
            kind = up.type
            call = up.parent if kind == "argument_list" and up.parent.type == "call_expression" else None
            if call is not None:
                if cast_type(call) == "":
                    return self._passed(up, node, reached, depth), None
                up = call
            elif kind == "subscript_expression" and up.child_by_field_name("argument") == node:
                reached = True
            elif kind == "field_expression":
                reached = reached or "->" in (child.type for child in up.children)
            elif kind == "pointer_expression":
                reached = up.children[0].type == "*"
            elif not self._same(up, node, reached):
                break
            node = up
        if up is None:
            return Usage(), None
        if up.type == "update_expression":
            return _BOTH, None
        if up.type == "assignment_expression" and up.child_by_field_name("left") == node:
            pure = up.children[1].type == "="
            return Usage() if not reached else _WRITE if pure else _BOTH, None
        if up.type in ("assignment_expression", "init_declarator"):
            declares = up.child_by_field_name("declarator") == node
            return (Usage(), None) if declares else self._bound(up, reached)
        if up.type.endswith("declarator") or up.type in ("declaration", "parameter_declaration"):
            return Usage(), None
        return (_READ if reached else Usage()), None

    def _same(self, up: Node, node: Node, reached: bool) -> bool:
        """Whether the expression around a value is this value, or a pointer into the same memory."""
        if up.type == "binary_expression":
            return not reached and up.children[1].type in ("+", "-")
        if up.type == "conditional_expression":
            return bool(up.child_by_field_name("condition") != node)
        return up.type in _BRACKETS or (up.type == "update_expression" and not reached)

    def _bound(self, up: Node, reached: bool) -> tuple[Usage, Node | None]:
        """A value that is given to a name: a pointer makes an alias, as a reference to an element does."""
        target = up.child_by_field_name("left") or up.child_by_field_name("declarator")
        refers = target.type == "reference_declarator"
        if reached and not refers:
            return _READ, None
        while target.type in ("pointer_declarator", "reference_declarator", "array_declarator"):
            target = below(target)
        if target.type != "identifier":
            return Usage(), None
        return Usage(), target

    def _passed(self, arguments: Node, node: Node, reached: bool, depth: int) -> Usage:
        """An argument of a call, or of a constructor."""
        call = self.code.call_of(arguments.parent)
        function = arguments.parent.child_by_field_name("function")
        name = call.name if call is not None else re.split(r"\.|->|::", self.code.of(function))[-1]
        callee, index = self.functions.get(name), arguments.named_children.index(node)
        fits = callee is not None and index < len(callee.params) and depth < MAX_DEPTH
        type_text, param_name = callee.params[index] if callee is not None and fits else ("", "")
        if reached:
            refers = "&" in type_text and "const" not in type_text
            return self.parameter(callee, param_name, True, depth + 1) if callee and refers else _READ
        if _ATOMIC.fullmatch(name):
            return Usage(True, True, True, first="read")
        if _READ_ONLY_CALLS.fullmatch(name):
            return _READ
        if callee is None or not fits:
            return Usage(True, True, unknown=True, first="read")
        if "*" in type_text or "&" in type_text:
            return self.parameter(callee, param_name, "*" not in type_text, depth + 1)
        return Usage()


def _when(node: Node) -> int:
    """Where an access takes place: what is assigned to is written after its new value is read."""
    at, up = node.start_byte, node.parent
    while up is not None and not up.type.endswith("statement"):
        if up.type == "assignment_expression" and up.child_by_field_name("left").end_byte > node.start_byte:
            at = up.end_byte
        up = up.parent
    return int(at)
