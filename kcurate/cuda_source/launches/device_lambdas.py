"""Device lambdas as functors with a name, so that they can be arguments of a kernel template.

`[=] __device__(int i) { y[i] = a * x[i]; }` becomes `Lambda1{y, a, x}` in its place, and the unit ends with a
struct of that name, whose members are what the lambda captures. Not covered: captures whose type the text
does not tell, `this`, lambdas in templates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kcurate.cuda_source.launches.template_heads import type_of
from kcurate.cuda_source.preprocess.splicing import Text
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER

_BEGUN = re.compile(rb"\[([^\[\](){};]*)\]\s*(?:__host__\s*)?__device__\b[\s\w]*(?=\()")
_BETWEEN = re.compile(rb"\s*(mutable\b)?\s*(?:noexcept\b)?\s*(->[^{};()]+)?(?=\{)")
_SPACE = re.compile(rb"(?:\bnamespace\b[\w\s:]*|\bextern\s*\"[^\"\n]*\"\s*)\Z")
# Not behind a member access or a scope.
_USED = re.compile(rb"(?<![\w.:])(?<!->)[A-Za-z_]\w*")
_BRACE = re.compile(rb"[{}]")
_AUTO = re.compile(rb"\bauto\b")


@dataclass(frozen=True)
class _Functor:
    """A lambda's end, what it captures, and the body of the struct that does the same."""

    end: int
    captured: tuple[bytes, ...]
    struct: bytes


def with_named_lambdas(text: Text) -> Text:
    """The unit with its device lambdas as functors; no byte before its end moves."""
    if b"__device__" not in text.source or not _BEGUN.search(text.source):
        return text
    source, bare = text.source, blank_literals(text.source)
    structs: dict[bytes, bytes] = {}
    out: list[bytes] = []
    at = 0
    for match in _BEGUN.finditer(bare):
        functor = _functor(source, bare, match) if match.start() >= at else None
        if functor is None:
            continue
        name = structs.get(functor.struct, b"Lambda%d" % (len(structs) + 1))
        made = name + b"{" + b", ".join(functor.captured) + b"}"
        breaks = source.count(b"\n", match.start(), functor.end)
        room = functor.end - match.start() - len(made) - breaks
        if room >= 0 and name not in bare:
            structs[functor.struct] = name
            out += [source[at : match.start()], made, b" " * room, b"\n" * breaks]
            at = functor.end
    named = (b"struct %b {%b};\n" % (name, struct) for struct, name in structs.items())
    return replace(text, source=b"".join([*out, source[at:], *named]))


def _functor(source: bytes, bare: bytes, match: re.Match[bytes]) -> _Functor | None:
    """What a lambda is as a struct; None: its captures are not known, or it is in a template."""
    function = bare[_function_start(bare, match.start()) : match.start()]
    params_end = closing(bare, match.end())
    between = _BETWEEN.match(bare, params_end) if params_end else None
    end = closing(bare, between.end()) if between else None
    if between is None or end is None or function.lstrip().startswith(b"template"):
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
    params = source[match.end() : params_end]
    autos = len(_AUTO.findall(params))
    head = b"template <%b> " % b", ".join(b"class A%d" % number for number in range(autos)) if autos else b""
    for number in range(autos):
        params = _AUTO.sub(b"A%d" % number, params, count=1)
    const = b"" if between[1] else b" const"
    returned = b" " + between[2].strip() if between[2] else b""
    call = b" %b__device__ auto operator()%b%b%b %b " % (
        head, params, const, returned, source[between.end() : end],
    )  # fmt: skip
    return _Functor(end, tuple(names), members + call)


def _function_start(bare: bytes, at: int) -> int:
    """Where the function begins that a place is in: behind the block, declaration or directive before it."""
    opened: list[int] = []
    for brace in _BRACE.finditer(bare, 0, at):
        if brace[0] == b"{":
            opened.append(brace.start())
        else:
            del opened[-1:]
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
