"""Device lambdas as functors with a name, so that they can be arguments of a kernel template.

`[=] __device__(int i) { y[i] = a * x[i]; }` becomes `Lambda1{y, a, x}` in its place, and the unit ends with a
struct of that name, whose members are what the lambda captures; in a host template it is a template of the
same parameters, `Lambda1<T>{y, a, x}`. Not covered: captures whose type the text does not tell, `this`,
lambdas in templates inside of templates.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from kcurate.cuda_source.launches.template_heads import head_end, template_params, type_of
from kcurate.cuda_source.preprocess.splicing import Text
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER

_BEGUN = re.compile(rb"\[([^\[\](){};]*)\]\s*(?:__host__\s*)?__device__\b[\s\w]*(?=\()")
_BETWEEN = re.compile(rb"\s*(mutable\b)?\s*(?:noexcept\b)?\s*(->[^{};()]+)?(?=\{)")
_SPACE = re.compile(rb"(?:\bnamespace\b[\w\s:]*|\bextern\s*\"[^\"\n]*\"\s*)\Z")
# Not behind a member access or a scope.
_USED = re.compile(rb"(?<![\w.:])(?<!->)[A-Za-z_]\w*")
_ON_DEVICE = re.compile(rb"\b__(?:global|device)__\b")
_TEMPLATE = re.compile(rb"template(?<!\wtemplate)\s*<")
_BRACE = re.compile(rb"[{}]")


def with_named_lambdas(text: Text) -> Text:
    """The unit with its device lambdas as functors; no byte before its end moves."""
    if b"__device__" not in text.source or not _BEGUN.search(text.source):
        return text
    source, bare = text.source, blank_literals(text.source)
    structs: dict[tuple[bytes, bytes], bytes] = {}
    out: list[bytes] = []
    at = 0
    for match in _BEGUN.finditer(bare):
        if match.start() < at:
            continue
        if _in_device_code(
            bare, match.start()
        ):  # there every lambda runs on the device, and NVRTC wants no word
            listed = source[match.start() : match.end(1) + 1]
            out += [source[at : match.start()], listed, b" " * (match.end() - match.start() - len(listed))]
            at = match.end()
            continue
        functor = _functor(source, bare, match)
        if functor is None:
            continue
        name = structs.get(functor.struct, b"Lambda%d" % (len(structs) + 1))
        end, made = functor.end, name + functor.made
        breaks = source.count(b"\n", match.start(), end)
        room = end - match.start() - len(made) - breaks
        if room >= 0 and name not in bare:
            structs[functor.struct] = name
            out += [source[at : match.start()], made, b" " * room, b"\n" * breaks]
            at = end
    named = (b"%bstruct %b {%b};\n" % (head, name, body) for (head, body), name in structs.items())
    return replace(text, source=b"".join([*out, source[at:], *named]))


class _Functor(NamedTuple):
    """A lambda's end, what stands behind the name of the struct that does the same, and that struct: the
    template head before it, and its body.
    """

    end: int
    made: bytes
    struct: tuple[bytes, bytes]


def _functor(source: bytes, bare: bytes, match: re.Match[bytes]) -> _Functor | None:
    """A lambda as a functor; None: its captures are not known, or it is in a template inside of another."""
    function = bare[_function_start(bare, match.start()) : match.start()].lstrip()
    own_head = function[: head_end(function)]
    template = template_params(own_head)
    params_end = closing(bare, match.end())
    between = _BETWEEN.match(bare, params_end) if params_end else None
    end = closing(bare, between.end()) if between else None
    inner = function[len(own_head) :]
    if between is None or end is None or not all(param.name for param in template) or _TEMPLATE.search(inner):
        return None
    listed = split_arguments(match[1])
    names = [name for name in listed if name not in (b"=", b"&")]
    if not all(IDENTIFIER.fullmatch(name) for name in names):
        return None
    inside = bare[match.end() : end]
    if len(names) < len(listed):
        used = dict.fromkeys(_USED.findall(inside))
        own = {word for word in used if _declared(word, inside, function)[0]}
        names = [word for word in used if word not in own and _declared(word, function)[0]]
    types = [_declared(name, function) for name in names]
    if not all(type_ for type_, _ in types):
        return None
    members = b"".join(
        b" %b %b%b;" % (type_, b"*" * stars, name)
        for name, (type_, stars) in zip(names, types, strict=True)
        if type_
    )
    number = count()
    params, autos = re.subn(rb"\bauto\b", lambda _: b"A%d" % next(number), source[match.end() : params_end])
    head = b"template <%b> " % b", ".join(b"class A%d" % at for at in range(autos)) if autos else b""
    const, returned = b"" if between[1] else b" const", b" " + (between[2] or b"").strip()
    signature = head + b"__device__ auto operator()" + params + const + returned.rstrip()
    body = b"%b %b %b " % (members, signature, source[between.end() : end])
    captured = b"{" + b", ".join(names) + b"}"
    if not {param.name for param in template} & {*IDENTIFIER.findall(body)}:
        return _Functor(end, captured, (b"", body))
    bound = b"<" + b", ".join(param.name + b"..." * param.pack for param in template) + b">"
    return _Functor(end, bound + captured, (own_head + b" ", body))


def _blocks_around(bare: bytes, at: int) -> list[int]:
    """The braces that are open at a place."""
    opened: list[int] = []
    for brace in _BRACE.finditer(bare, 0, at):
        if brace[0] == b"{":
            opened.append(brace.start())
        else:
            del opened[-1:]
    return opened


def _in_device_code(bare: bytes, at: int) -> bool:
    """Whether a place is in a function of the device."""
    heads = (
        bare[max(bare.rfind(sign, 0, block) for sign in (b";", b"}", b"{")) + 1 : block]
        for block in _blocks_around(bare, at)
    )
    return any(_ON_DEVICE.search(head) for head in heads)


def _function_start(bare: bytes, at: int) -> int:
    """Where the function begins that a place is in: behind the block, declaration or directive before it."""
    opened = _blocks_around(bare, at)
    body = next((brace for brace in opened if not _SPACE.search(bare, max(0, brace - 400), brace)), at)
    before = max(bare.rfind(sign, 0, body) for sign in (b";", b"}", b"{"))
    head = max(before, bare.rfind(b"\n#", 0, body))
    return head + 1 if head == before else bare.find(b"\n", head + 1) + 1


def _declared(name: bytes, text: bytes, around: bytes = b"") -> tuple[bytes | None, int]:
    """The type of a variable that the text declares, and its stars.

    `a * x` declares nothing where `a` is a variable of the text or of that around it.
    """
    while True:
        type_, stars = type_of(name, text)
        if type_ is None or not any(type_of(type_, known)[0] for known in (text, around)):
            return type_, stars
        text = text[: max(text.rfind(name), 0)]
