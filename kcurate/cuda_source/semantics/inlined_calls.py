"""A kernel with the device functions that it calls inlined into its body, as text to analyse, not to compile.

So the bound of an index, or the index of a pointer, is found although it is in a wrapper. A call that is a
statement becomes a block with the callee's local names made unique. A call of a function that only returns an
expression becomes that expression. Not covered: methods, overloads that differ only in types, functions with
several return statements that return a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcurate.cuda_source.parse.syntax_tree import Node, ancestors
from kcurate.cuda_source.semantics.code_index import Call, Code, Function

# Limits on what is inlined: nesting of calls, number of calls, bytes of the kernel's body.
MAX_ROUNDS, MAX_CALLS, MAX_BYTES = 4, 60, 60_000
_CLASSES = frozenset(("class_specifier", "struct_specifier"))


def inlined(code: Code, kernel: str) -> Code:
    """The code with the calls in the kernel's body inlined; the same object if there are none."""
    inlined_count = 0
    for _ in range(MAX_ROUNDS):
        function = code.function(kernel)
        if function is None:
            return code
        edits = list(_edits(code, function, inlined_count))
        if not edits or function.end - function.body > MAX_BYTES:
            return code
        text = code.text
        for start, end, replacement in reversed(edits):
            text = text[:start] + replacement + text[end:]
        inlined_count += len(edits)
        code = code.changed(text)
        if inlined_count > MAX_CALLS:
            return code
    return code


def _edits(code: Code, kernel: Function, written: int) -> Iterator[tuple[int, int, str]]:
    """The kernel's outermost calls that can be inlined: start, end and replacement of each."""
    device = [function for function in code.functions if function.end <= kernel.start and _free(function)]
    after = 0
    calls = (call for some in code.calls.values() for call in some if kernel.body <= call.at < kernel.end)
    for number, call in enumerate(sorted(calls, key=lambda call: call.at), written):
        callee = next((function for function in device if _fits(call, function)), None)
        if callee is None or call.at < after:
            continue
        node, replacement = call.node, None
        if callee.returned is not None:
            replacement = _expression(code, callee, call)
        elif call.node.parent.type == "expression_statement":
            node, replacement = call.node.parent, _block(code, callee, call, f"_{number}")
        if replacement is not None:
            after = node.end_byte
            yield node.start_byte, node.end_byte, replacement


def _free(function: Function) -> bool:
    return not function.kernel and all(outer.type not in _CLASSES for outer in ancestors(function.node))


def _fits(call: Call, function: Function) -> bool:
    least = len(function.params) - len(function.defaults)
    return function.name == call.name and least <= len(call.args) <= len(function.params)


def _passed(callee: Function, call: Call) -> Mapping[str, str]:
    """The argument of each parameter of the callee, template parameters included."""
    missing = len(callee.params) - len(call.args)
    texts = (*call.args, *(callee.defaults[-missing:] if missing else ()))
    template = dict(zip(callee.template, call.template, strict=False))
    return template | dict(zip((name for _, name in callee.params), texts, strict=True))


def _expression(code: Code, callee: Function, call: Call) -> str:
    """The call as the expression that the callee returns, in parentheses."""
    returned = Code(f"void _f() {{ return {callee.returned}; }}".encode("latin-1"))
    (function,) = returned.functions
    names = {name: f"({text})" for name, text in _passed(callee, call).items()}
    body = _renamed(returned, function.node.child_by_field_name("body"), names)
    return f"({body.partition('return')[2].rpartition(';')[0].strip()})"


def _block(code: Code, callee: Function, call: Call, suffix: str) -> str:
    """The call as a block.

    Parameters that get a plain name or number, and are not assigned to, are replaced by it; the others become
    variables.
    """
    names = {name: f"{name}{suffix}" for name in code.declared_in(callee)}
    declared = []
    types = {name: type_text for type_text, name in callee.params}
    for name, text in _passed(callee, call).items():
        changed = bool(code.settings_in(name, callee))
        if name not in types or (not changed and (text.isidentifier() or text.isdigit())):
            names[name] = text
        else:
            names[name] = f"{name}{suffix}"
            declared.append(f"{types[name].replace('&', '')} {name}{suffix} = {text};")
    body = _renamed(code, callee.node.child_by_field_name("body"), names)
    return f"{{ {' '.join(declared)} {body} }}"


def _renamed(code: Code, body: Node, names: Mapping[str, str]) -> str:
    """The text of a body with names replaced; members keep their names."""
    parts, at = list[str](), body.start_byte
    for node in code.tree.nodes("identifier", "type_identifier", within=body):
        replacement = names.get(code.of(node))
        if replacement is not None:
            parts += [code.text[at : node.start_byte], replacement]
            at = node.end_byte
    return "".join([*parts, code.text[at : body.end_byte]])
