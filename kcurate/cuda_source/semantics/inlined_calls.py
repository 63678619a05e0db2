"""A kernel with the device functions that it calls written out in its body, for reading, not for compiling.

What bounds an index, or what a pointer is indexed with, is so found in a wrapper's body as in a kernel of
one piece. A call that is a statement becomes a block, with the callee's names made different; one whose
function only returns an expression becomes that expression. Not covered: methods, overloads that differ in
types alone, functions that return from several places and give a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcurate.cuda_source.parse.syntax_tree import Node, ancestors
from kcurate.cuda_source.semantics.code_index import Call, Code, Function

# Calls of calls, calls written out, and bytes of a body after which the rest stays as it is.
MAX_ROUNDS, MAX_CALLS, MAX_BYTES = 4, 60, 60_000
_CLASSES = frozenset(("class_specifier", "struct_specifier"))


def inlined(code: Code, kernel: str) -> Code:
    """The code with calls in the kernel's body written out; as it is without any."""
    written = 0
    for _ in range(MAX_ROUNDS):
        function = code.function(kernel)
        if function is None:
            return code
        edits = list(_edits(code, function, written))
        if not edits or function.end - function.body > MAX_BYTES:
            return code
        text = code.text
        for start, end, instead in reversed(edits):
            text = text[:start] + instead + text[end:]
        written += len(edits)
        code = code.changed(text)
        if written > MAX_CALLS:
            return code
    return code


def _edits(code: Code, kernel: Function, written: int) -> Iterator[tuple[int, int, str]]:
    """The outermost calls of the kernel, each with what stands in its place."""
    device = [function for function in code.functions if function.end <= kernel.start and _free(function)]
    after = 0
    calls = (call for some in code.calls.values() for call in some if kernel.body <= call.at < kernel.end)
    for number, call in enumerate(sorted(calls, key=lambda call: call.at), written):
        callee = next((each for each in device if _fits(call, each)), None)
        if callee is None or call.at < after:
            continue
        place, instead = call.node, None
        if callee.returned is not None:
            instead = _expression(code, callee, call)
        elif call.node.parent.type == "expression_statement":
            place, instead = call.node.parent, _block(code, callee, call, f"_{number}")
        if instead is not None:
            after = place.end_byte
            yield place.start_byte, place.end_byte, instead


def _free(function: Function) -> bool:
    return not function.kernel and all(outer.type not in _CLASSES for outer in ancestors(function.node))


def _fits(call: Call, function: Function) -> bool:
    least = len(function.params) - len(function.defaults)
    return function.name == call.name and least <= len(call.args) <= len(function.params)


def _passed(callee: Function, call: Call) -> Mapping[str, str]:
    """What the callee's parameters stand for, those of its template too."""
    missing = len(callee.params) - len(call.args)
    texts = (*call.args, *(callee.defaults[-missing:] if missing else ()))
    template = dict(zip(callee.template, call.template, strict=False))
    return template | dict(zip((name for _, name in callee.params), texts, strict=True))


def _expression(code: Code, callee: Function, call: Call) -> str:
    """A call as the expression that the callee returns, in brackets."""
    returned = Code(f"void _f() {{ return {callee.returned}; }}".encode("latin-1"))
    (function,) = returned.functions
    names = {name: f"({text})" for name, text in _passed(callee, call).items()}
    body = _renamed(returned, function.node.child_by_field_name("body"), names)
    return f"({body.partition('return')[2].rpartition(';')[0].strip()})"


def _block(code: Code, callee: Function, call: Call, suffix: str) -> str:
    """A call as a block: what is passed as it is keeps its name; the rest is declared."""
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
    """A body's text with names replaced; members keep theirs."""
    parts, at = list[str](), body.start_byte
    for node in code.tree.nodes("identifier", "type_identifier", within=body):
        instead = names.get(code.of(node))
        if instead is not None:
            parts += [code.text[at : node.start_byte], instead]
            at = node.end_byte
    return "".join([*parts, code.text[at : body.end_byte]])
