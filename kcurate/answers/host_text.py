"""The CUDA source of a published answer as two texts: host code whose launches are recorded, and device code.

Host code is compiled by a C++ compiler against `native/answer.h`: the body of a kernel records its call,
`kernel<<<grid, block>>>(args)` sets the configuration first. The rewrite is textual, so that it also works
inside macros. Not covered: compiling (`answers.building`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from kcurate.cuda_source import blank_comments, blank_literals, extract_unit
from kcurate.cuda_source.parse.parameters import params_of
from kcurate.cuda_source.text.brackets import closing

FILE = "answer.cu"
_INCLUDE = re.compile(
    rb"(?m)^[ \t]*#[ \t]*include[ \t]*[<\"](?:torch/|ATen/|c10/|cuda|cub/|cooperative_groups|mma\.h"
    rb"|vector_types|device_launch|math_constants|pybind11/|stdgpu)[^\n]*"
)
_FUNCTION = re.compile(rb"\b__(?:global|device)__\b")
_WORD = re.compile(rb"[A-Za-z_]\w*")
# Older PyTorch took `x.type()` there.
_DISPATCH = re.compile(rb"(\bAT_DISPATCH_\w+\s*\(\s*[^,()]*)\.type\(\)(?=\s*,)")
_CALLEE = re.compile(rb"(?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*\s*\Z")
_SYMBOL = re.compile(
    rb"__(?:constant|device)__\s+(?:const\s+)?[\w:]+(?:\s+[\w:]+)?\s+(\w+)\s*(?:\[[^;={(]*)?[;=]"
)


class DeviceFunction(NamedTuple):
    """A function of device code in a text: its name, and the spans of its head and of its body."""

    name: str
    kernel: bool
    start: int
    body: int
    end: int


def device_functions(source: bytes) -> Iterator[DeviceFunction]:
    """The functions marked `__global__` or `__device__` that have a body; methods too."""
    bare = blank_literals(source)
    at = 0
    while match := _FUNCTION.search(bare, at):
        at = match.end()
        body = _body(bare, at)
        end = closing(bare, body) if body is not None else None
        if body is None or end is None:
            continue
        head = bare[match.start() : body]
        names = _WORD.findall(head[: _parameters(head)])
        if names:
            # The qualifiers come in any order, so `__host__` may stand before the match.
            qualified = max(bare.rfind(mark, 0, match.start()) for mark in (b";", b"}", b"{")) + 1
            if b"__host__" not in bare[qualified:body]:
                yield DeviceFunction(names[-1].decode(), b"__global__" in head, match.start(), body, end)
            at = end


def _body(bare: bytes, at: int) -> int | None:
    """The position of the body of the function declared at `at`; None if it has none."""
    while at < len(bare):
        if bare[at] in b"(":
            at = closing(bare, at) or len(bare)
        elif bare[at] in b"{":
            return at
        elif bare[at] in b";=":
            return None
        else:
            at += 1
    return None


def _parameters(head: bytes) -> int:
    """The position of the parameter list in a function's head, after any `__launch_bounds__(...)`."""
    at = head.find(b"(")
    while at >= 0 and head[:at].rstrip().endswith((b"__launch_bounds__", b"__align__")):
        at = head.find(b"(", closing(head, at) or len(head))
    return at if at >= 0 else len(head)


def host_text(source: bytes) -> bytes:
    """The text for a C++ compiler: kernels record their calls, other device functions do nothing."""
    pieces, at = [], 0
    for function in device_functions(source):
        pieces += [source[at : function.body], _recording(source, function)]
        at = function.end
    text = b"".join([*pieces, source[at:]])
    symbols = dict.fromkeys(match[1] for match in _SYMBOL.finditer(blank_literals(text)))
    declared_symbols = b"".join(
        b'static kcurate::Symbol kcurate_symbol_%b("%b", (const void*)&%b);\n' % (name, name, name)
        for name in symbols
    )
    text = _DISPATCH.sub(rb"\1.scalar_type()", _configured(blank_comments(text)))
    return _INCLUDE.sub(b"", text) + b"\n" + declared_symbols


def _recording(source: bytes, function: DeviceFunction) -> bytes:
    if not function.kernel:
        return b"{ __builtin_trap(); }"
    head = blank_literals(source[function.start : function.body])
    names = [param.name.encode() for param in params_of(b"__global__ " + head[_parameters(head) :])]
    arguments = b"".join(b", " + name for name in names)
    return b'{ kcurate::launched("%b", __PRETTY_FUNCTION__%b); }' % (function.name.encode(), arguments)


def _configured(text: bytes) -> bytes:
    """`k<T><<<grid, block>>>(args)` as `kcurate::configure(grid, block), k<T>(args)`."""
    at = 0
    while (at := text.find(b"<<<", at)) >= 0:
        end = _launch_end(text, at + 3)
        start = _callee(text, at)
        if end is None or start is None or not text[end + 3 :].lstrip(b" \t\r\n\\").startswith(b"("):
            at += 3
            continue
        call = b"kcurate::configure(%b), %b" % (text[at + 3 : end], text[start:at])
        text = text[:start] + call + text[end + 3 :]
        at = start + len(call)
    return text


def _launch_end(text: bytes, at: int) -> int | None:
    depth = 0
    for position in range(at, min(len(text), at + 4000)):
        if text[position] in b"([{":
            depth += 1
        elif text[position] in b")]}":
            depth -= 1
        elif not depth and text.startswith(b">>>", position):
            return position
    return None


def _callee(text: bytes, at: int) -> int | None:
    """The position of the callee before `<<<`: a name, and template arguments."""
    end = len(text[:at].rstrip())
    if text[end - 1 : end] == b">":
        angles = brackets = 0
        for position in range(end - 1, max(0, end - 1000), -1):
            byte = text[position]
            brackets += (byte in b")]") - (byte in b"([")
            if not brackets:
                angles += (byte == ord(">")) - (byte == ord("<"))
            if not angles and not brackets:
                end = position
                break
    match = _CALLEE.search(text, max(0, end - 300), end)
    return match.start() if match else None


def device_code(source: bytes, kernels: Collection[str]) -> str | None:
    """One self-contained file with these kernels and everything they use; None if they are not in the
    source."""
    pieces, at = [], 0
    for function in device_functions(source):
        if function.kernel and function.name not in kernels:
            start = _with_template(source, function.start)
            pieces.append(source[at:start])
            at = function.end
    text = b"".join([*pieces, source[at:]])
    report = extract_unit(FILE, {FILE: text}.get, lambda *_: None)
    code = report.file_codes.get(FILE)
    return None if code is None else code.decode("utf-8", "replace")


def _with_template(source: bytes, start: int) -> int:
    """The position where a function marked at `start` begins, including `template <...>` or `extern "C"`
    before it."""
    before = blank_comments(source[:start])
    match = re.search(rb'(?:template\s*<[^;{}]*>|extern\s*"C"|static|inline|\s)*\Z', before)
    return match.start() if match else start


def template_arguments(instance: str) -> tuple[str, ...]:
    """The template arguments at the end of `__PRETTY_FUNCTION__`, as g++ and clang write it."""
    match = re.search(r"\[(?:with )?([^\[\]]*)\]\Z", instance)
    if match is None:
        return ()
    parts = [part.partition(" = ") for part in re.split(r"[;,] (?=[\w ]+ = )", match[1])]
    return tuple(value.strip() for _, _, value in parts)
