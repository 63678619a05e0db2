"""Whether a kernel reads, writes or atomically updates the memory behind each pointer parameter.

Pointers are followed through local pointers, references, casts and device functions: with `float *row = out +
i; row[0] += 1;`, `out` is read and written. A pointer passed to a function that the code does not contain
counts as read and written. Not covered: index ranges.

In this module `is_element` distinguishes an lvalue in that memory (`out[i]`, `*out`, a `float &` bound to it)
from a pointer into it; only using the element is an access.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from functools import reduce
from operator import itemgetter, or_

from kcurate.cuda_source.parse.syntax_tree import Node, below
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.declarations import Setting
from kcurate.cuda_source.semantics.pointer_paths import cast_type

MAX_CALL_DEPTH = 6
_READ_ONLY_CALLS = re.compile(
    r"__ld\w*|tex\w+|printf|assert|isnan|isinf|sizeof|__isGlobal|min|max|fmin\w*|fmax\w*"
)
_ATOMIC = re.compile(r"(?:safe|fast)?_?atomic\w*", re.IGNORECASE)
_BRACKETS = frozenset(("parenthesized_expression", "condition_clause", "cast_expression"))


@dataclass(frozen=True)
class Usage:
    """Accesses to the memory behind a pointer; `unknown`: by a function that the code does not contain.

    `first` is the first access, "read" or "write"; empty if there is none.
    """

    read: bool = False
    written: bool = False
    atomic: bool = False
    unknown: bool = False
    first: str = ""

    def __or__(self, other: Usage) -> Usage:
        both = zip(astuple(self), astuple(other), strict=True)
        return Usage(*(mine or theirs for mine, theirs in both))


_READ = Usage(read=True, first="read")
_WRITE = Usage(written=True, first="write")
_READ_WRITE = Usage(True, True, first="read")


def usage(code: Code, function: Function, name: str) -> Usage:
    """How a function accesses the memory behind its parameter `name`."""
    return _AccessFinder(code).parameter(function, name, is_element=False, depth=0)


class _AccessFinder:
    def __init__(self, code: Code) -> None:
        self.code = code
        self.functions = {function.name: function for function in reversed(code.functions)}

    def parameter(self, function: Function, name: str, is_element: bool, depth: int) -> Usage:
        """Accesses through a parameter and its aliases; `depth`: calls between the kernel and `function`."""
        accesses: list[tuple[int, Usage]] = []
        queue: list[tuple[str, Setting | None, bool]] = [(name, None, is_element)]
        for pointer, declared, is_element in queue:
            for node in self.code.uses(pointer, function):
                if self.code.declared(pointer, node.start_byte) != declared:
                    continue
                access, alias = self._access(node, is_element, depth)
                accesses.append((_evaluation_order(node), access))
                if alias is not None:
                    target = self.code.of(alias)
                    declaration = self.code.declared(target, alias.start_byte)
                    if all(queued[:2] != (target, declaration) for queued in queue):
                        is_reference = declaration is not None and declaration.type[-1:] == "&"
                        queue.append((target, declaration, is_reference))
        return reduce(or_, (access for _, access in sorted(accesses, key=itemgetter(0))), Usage())

    def _access(self, node: Node, is_element: bool, depth: int) -> tuple[Usage, Node | None]:
        """The access by one occurrence of a name, and the name of an alias that it initialises, if any."""
        while (up := node.parent) is not None:
            kind = up.type
            call = up.parent if kind == "argument_list" and up.parent.type == "call_expression" else None
            if call is not None:
                if cast_type(call) == "":
                    return self._by_callee(up, node, is_element, depth), None
                up = call
            elif kind == "subscript_expression" and up.child_by_field_name("argument") == node:
                is_element = True
            elif kind == "field_expression":
                is_element = is_element or "->" in (child.type for child in up.children)
            elif kind == "pointer_expression":
                is_element = up.children[0].type == "*"
            elif not self._is_same_memory(up, node, is_element):
                break
            node = up
        if up is None:
            return Usage(), None
        if up.type == "update_expression":
            return _READ_WRITE, None
        if up.type == "assignment_expression" and up.child_by_field_name("left") == node:
            pure = up.children[1].type == "="
            return Usage() if not is_element else _WRITE if pure else _READ_WRITE, None
        if up.type in ("assignment_expression", "init_declarator"):
            declares = up.child_by_field_name("declarator") == node
            return (Usage(), None) if declares else self._assigned(up, is_element)
        if up.type.endswith("declarator") or up.type in ("declaration", "parameter_declaration"):
            return Usage(), None
        return (_READ if is_element else Usage()), None

    def _is_same_memory(self, up: Node, node: Node, is_element: bool) -> bool:
        """Whether the expression around a node is the same element, or a pointer into the same memory."""
        if up.type == "binary_expression":
            return not is_element and up.children[1].type in ("+", "-")
        if up.type == "conditional_expression":
            return bool(up.child_by_field_name("condition") != node)
        return up.type in _BRACKETS or (up.type == "update_expression" and not is_element)

    def _assigned(self, up: Node, is_element: bool) -> tuple[Usage, Node | None]:
        """Like `_access`, for an assignment: copying a pointer or binding a reference creates an alias."""
        target = up.child_by_field_name("left") or up.child_by_field_name("declarator")
        if is_element and target.type != "reference_declarator":
            return _READ, None
        while target.type in ("pointer_declarator", "reference_declarator", "array_declarator"):
            target = below(target)
        if target.type != "identifier":
            return Usage(), None
        return Usage(), target

    def _by_callee(self, arguments: Node, node: Node, is_element: bool, depth: int) -> Usage:
        """The accesses by the callee (a function or constructor) that takes `node` as an argument."""
        call = self.code.call_of(arguments.parent)
        function = arguments.parent.child_by_field_name("function")
        name = call.name if call is not None else re.split(r"\.|->|::", self.code.of(function))[-1]
        callee, index = self.functions.get(name), arguments.named_children.index(node)
        fits = callee is not None and index < len(callee.params) and depth < MAX_CALL_DEPTH
        type_text, param_name = callee.params[index] if callee is not None and fits else ("", "")
        if is_element:
            writable = "&" in type_text and "const" not in type_text
            return self.parameter(callee, param_name, True, depth + 1) if callee and writable else _READ
        if _ATOMIC.fullmatch(name):
            return Usage(True, True, True, first="read")
        if _READ_ONLY_CALLS.fullmatch(name):
            return _READ
        if callee is None or not fits:
            return Usage(True, True, unknown=True, first="read")
        if "*" in type_text or "&" in type_text:
            return self.parameter(callee, param_name, "*" not in type_text, depth + 1)
        return Usage()


def _evaluation_order(node: Node) -> int:
    """The offset by which accesses are ordered: the target of an assignment comes after its right side."""
    at, up = node.start_byte, node.parent
    while up is not None and not up.type.endswith("statement"):
        if up.type == "assignment_expression" and up.child_by_field_name("left").end_byte > node.start_byte:
            at = up.end_byte
        up = up.parent
    return int(at)
