"""Replaces device lambdas by named functors, which can be template arguments of a kernel.

`[=] __device__(int i) { y[i] = a * x[i]; }` becomes `Lambda1{y, a, x}` in place, and a struct `Lambda1` with
the captures as members is appended to the unit. In a host function template the struct is a template with the
same parameters, and the lambda becomes `Lambda1<T>{y, a, x}`. Not covered: captures whose type the text does
not tell, `this`, lambdas in templates inside other templates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from kcurate.cuda_source.launches.template_heads import head_end, template_params, type_of
from kcurate.cuda_source.preprocess.splicing import Text
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER

_LAMBDA_START = re.compile(rb"\[([^\[\](){};]*)\]\s*(?:__host__\s*)?__device__\b[\s\w]*(?=\()")
_PARAMS_TO_BODY = re.compile(rb"\s*(mutable\b)?\s*(?:noexcept\b)?\s*(->[^{};()]+)?(?=\{)")
_NAMESPACE_HEAD = re.compile(rb"(?:\bnamespace\b[\w\s:]*|\bextern\s*\"[^\"\n]*\"\s*)\Z")
# A name that is neither a member nor behind `::`.
_VARIABLE_USE = re.compile(rb"(?<![\w.:])(?<!->)[A-Za-z_]\w*")
_ON_DEVICE = re.compile(rb"\b__(?:global|device)__\b")
_TEMPLATE = re.compile(rb"template(?<!\wtemplate)\s*<")
_BRACE = re.compile(rb"[{}]")
# The head of a namespace is shorter.
MAX_HEAD_BYTES = 400


def with_named_lambdas(text: Text) -> Text:
    """The unit with its device lambdas replaced by functors; all existing bytes keep their offsets."""
    if b"__device__" not in text.source or not _LAMBDA_START.search(text.source):
        return text
    source, bare = text.source, blank_literals(text.source)
    structs: dict[tuple[bytes, bytes], bytes] = {}
    out: list[bytes] = []
    at = 0
    for match in _LAMBDA_START.finditer(bare):
        if match.start() < at:
            continue
        if _in_device_code(bare, match.start()):
            # Every lambda runs on the device there, and NVRTC rejects `__device__` on it: blank the word.
            capture_list = source[match.start() : match.end(1) + 1]
            blanks = b" " * (match.end() - match.start() - len(capture_list))
            out += [source[at : match.start()], capture_list, blanks]
            at = match.end()
            continue
        functor = _functor(source, bare, match)
        if functor is None:
            continue
        name = structs.get(functor.struct, b"Lambda%d" % (len(structs) + 1))
        replacement = name + functor.construction
        # Padded to the lambda's length and line count, so that no later byte or line moves.
        line_breaks = source.count(b"\n", match.start(), functor.end)
        padding = functor.end - match.start() - len(replacement) - line_breaks
        if padding >= 0 and name not in bare:
            structs[functor.struct] = name
            out += [source[at : match.start()], replacement, b" " * padding, b"\n" * line_breaks]
            at = functor.end
    definitions = (b"%bstruct %b {%b};\n" % (head, name, body) for (head, body), name in structs.items())
    return replace(text, source=b"".join([*out, source[at:], *definitions]))


class _Lambda(NamedTuple):
    """The parts of a device lambda, as byte offsets of the unit: `[...] __device__ (params) ... { body }`."""

    params_start: int
    params_end: int
    body_start: int
    end: int
    mutable: bool
    return_type: bytes


class _Functor(NamedTuple):
    """What replaces a lambda: `end` is the byte behind it.

    `construction` is what follows the struct's name in the lambda's place, such as `<T>{y, a}`. `struct` is
    the template head of the struct (may be empty) and the text between its braces.
    """

    end: int
    construction: bytes
    struct: tuple[bytes, bytes]


def _functor(source: bytes, bare: bytes, match: re.Match[bytes]) -> _Functor | None:
    """The functor that replaces a lambda.

    None: the type of a capture is unknown, or the lambda is in a template inside another template.
    """
    function = bare[_function_start(bare, match.start()) : match.start()].lstrip()
    function_head = function[: head_end(function)]
    template = template_params(function_head)
    parts = _lambda_parts(bare, match)
    nested_template = _TEMPLATE.search(function[len(function_head) :])
    if parts is None or nested_template or not all(param.name for param in template):
        return None
    captures = _captures(match[1], bare[match.end() : parts.end], function)
    members = _members(captures, function) if captures is not None else None
    if captures is None or members is None:
        return None
    body = b"%b %b " % (members, _call_operator(source, parts))
    initialiser = b"{" + b", ".join(captures) + b"}"
    if not {param.name for param in template} & {*IDENTIFIER.findall(body)}:
        return _Functor(parts.end, initialiser, (b"", body))
    template_args = b"<" + b", ".join(param.name + b"..." * param.pack for param in template) + b">"
    return _Functor(parts.end, template_args + initialiser, (function_head + b" ", body))


def _lambda_parts(bare: bytes, match: re.Match[bytes]) -> _Lambda | None:
    """The parts of the lambda whose capture list `match` found; None: a bracket does not close."""
    params_end = closing(bare, match.end())
    before_body = _PARAMS_TO_BODY.match(bare, params_end) if params_end else None
    end = closing(bare, before_body.end()) if before_body else None
    if params_end is None or before_body is None or end is None:
        return None
    return_type = (before_body[2] or b"").strip()
    return _Lambda(match.end(), params_end, before_body.end(), end, before_body[1] is not None, return_type)


def _captures(capture_list: bytes, lambda_text: bytes, function: bytes) -> list[bytes] | None:
    """The names that a lambda captures; None: a capture is not a plain name, such as `this` or `n = 2`.

    For the defaults `=` and `&` these are the names that the lambda uses and its function declares.
    """
    listed = split_arguments(capture_list)
    names = [name for name in listed if name not in (b"=", b"&")]
    if not all(IDENTIFIER.fullmatch(name) for name in names):
        return None
    if len(names) < len(listed):
        used = dict.fromkeys(_VARIABLE_USE.findall(lambda_text))
        lambda_locals = {word for word in used if _declared(word, lambda_text, function)[0]}
        names = [word for word in used if word not in lambda_locals and _declared(word, function)[0]]
    return names


def _members(names: Sequence[bytes], function: bytes) -> bytes | None:
    """The declarations of the captured variables; None: the function does not tell the type of one."""
    types = [_declared(name, function) for name in names]
    if not all(type_ for type_, _ in types):
        return None
    return b"".join(
        b" %b %b%b;" % (type_, b"*" * stars, name)
        for name, (type_, stars) in zip(names, types, strict=True)
        if type_
    )


def _call_operator(source: bytes, parts: _Lambda) -> bytes:
    """The lambda as `operator()`; for `auto` parameters it is a template of the types `A0`, `A1`, ..."""
    number = count()
    params, autos = re.subn(
        rb"\bauto\b", lambda _: b"A%d" % next(number), source[parts.params_start : parts.params_end]
    )
    head = b"template <%b> " % b", ".join(b"class A%d" % at for at in range(autos)) if autos else b""
    const = b"" if parts.mutable else b" const"
    return_type = b" " + parts.return_type if parts.return_type else b""
    signature = head + b"__device__ auto operator()" + params + const + return_type
    return b"%b %b" % (signature, source[parts.body_start : parts.end])


def _blocks_around(bare: bytes, at: int) -> list[int]:
    """The offsets of the `{` that are open at byte `at`, outermost first."""
    open_braces: list[int] = []
    for brace in _BRACE.finditer(bare, 0, at):
        if brace[0] == b"{":
            open_braces.append(brace.start())
        else:
            del open_braces[-1:]
    return open_braces


def _in_device_code(bare: bytes, at: int) -> bool:
    """Whether byte `at` is inside a `__device__` or `__global__` function."""
    heads = (bare[_statement_end(bare, block) + 1 : block] for block in _blocks_around(bare, at))
    return any(_ON_DEVICE.search(head) for head in heads)


def _statement_end(bare: bytes, at: int) -> int:
    """The offset of the last `;`, `{` or `}` before byte `at`; -1: there is none."""
    return max(bare.rfind(sign, 0, at) for sign in (b";", b"}", b"{"))


def _function_start(bare: bytes, at: int) -> int:
    """Where the function around byte `at` begins: behind the preceding `;`, brace or directive."""
    open_braces = _blocks_around(bare, at)
    body_start = next(
        (
            brace
            for brace in open_braces
            if not _NAMESPACE_HEAD.search(bare, max(0, brace - MAX_HEAD_BYTES), brace)
        ),
        at,
    )
    before = _statement_end(bare, body_start)
    directive = bare.rfind(b"\n#", 0, body_start)
    return before + 1 if before >= directive else bare.find(b"\n", directive + 1) + 1


def _declared(name: bytes, text: bytes, around: bytes = b"") -> tuple[bytes | None, int]:
    """The type with which `text` declares a variable, without stars, and the number of stars.

    `a * x` is read as a multiplication, not as a declaration of `x`, if `a` is a variable of `text` or of
    `around`.
    """
    while True:
        type_, stars = type_of(name, text)
        if type_ is None or not any(type_of(type_, scope)[0] for scope in (text, around)):
            return type_, stars
        text = text[: max(text.rfind(name), 0)]  # try the declaration before that mention
