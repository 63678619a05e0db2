"""Template heads, and the types of expressions that launches and calls pass, read off the text.

Not covered: types that a compiler must compute (`auto`, results of functions without a cast).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER
from kcurate.records import Param

_POINTER_CAST = re.compile(rb"\(\s*((?:const\s+)?[\w:]+(?:\s+\w+)?(?:<[^<>()]*>)?)\s*(\**)\s*\)(?=[\s\w(&*])")
_NAMED_CAST = re.compile(rb"(?:static|reinterpret|const)_cast\s*<([^()]*?)(\**)\s*>\s*\(")
_ELEMENT_CALL = re.compile(rb"(?:\.|->)\s*\w+\s*<\s*([\w:]+)\s*>\s*\(\s*\)\s*\Z")
_BUILTIN = re.compile(
    rb"\b((?:unsigned|signed|long|short)(?:\s+(?:long|int|char|short))*|(?:u?(?:char|short|int|long|longlong)|"
    rb"float|double)[1-4]?|bool|half|__half2?|u?int(?:8|16|32|64)_t|size_t)\b"
)
_NUMBER = re.compile(rb"-?(?:(\d+[uU]?[lL]*)|((?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)([fF])?)\Z")
_CONSTRUCTED = re.compile(rb"((?:[A-Za-z_]\w*\s*::\s*)*([A-Za-z_]\w*)(?:<[^;(){}]*>)?)\s*(?=[({])")
_TYPE = (
    rb"\s*((?:(?:const|static|struct|unsigned|signed|long|short)\s+)*[A-Za-z_][\w:]*(?:<[^<>;,(){}]*>)?"
    rb"(?:\s+(?:const|int|long))*)"
)
_DECLARATION = re.compile(_TYPE + rb"[\s*&]+\w")
_DECLARED_LAST = re.compile(_TYPE + rb"([\s*&]+(?:(?:const|__restrict__|__restrict)\s*)*)")
_AUTO = re.compile(rb"\s*(?:const\s+)?auto\s*(?:const\s*)?&{0,2}\s*")
# Not a comparison.
_SETS = re.compile(rb"(?<![=<>!])=(?!=)")
_INDEX = re.compile(
    rb"(?i)\A(?:i|idx|ind|int|id|off|size|count|key|label)|(?:id|idx|ind|index|int|offset|size)_?(?:t|type)?\Z"
)
# Between a type and the name that it declares there is less.
MAX_DECLARATION_BYTES = 300
_NO_TYPE = frozenset(b"const volatile static struct return typename constexpr new else auto inline".split())

_SIGNS = re.compile(rb"[()<>]")


@dataclass(frozen=True)
class TemplateParam:
    """One parameter of a template head: `default` as written (None: none), `pack` for `class... Ts`.

    `type` is True where it stands for one type.
    """

    name: bytes
    default: bytes | None
    pack: bool
    type: bool = False

    @property
    def usual(self) -> bytes:
        """A type that this type parameter commonly stands for, by its name."""
        return b"int" if _INDEX.search(self.name) else b"float"


def template_params(header: bytes) -> tuple[TemplateParam, ...]:
    """The parameters of a template head: `template <class T, int N = 4>` gives T and N."""
    inside = header[header.find(b"<") + 1 : head_end(header) - 1]
    return tuple(map(_param, split_arguments(inside, angles=True)))


def head_end(header: bytes) -> int:
    """Where the template head ends that a header begins with; 0: it begins with none."""
    start = header.find(b"<")
    if not header.lstrip().startswith(b"template") or start < 0:
        return 0
    depth = brackets = 0
    for sign in _SIGNS.finditer(header, start):
        brackets += {b"(": 1, b")": -1}.get(sign[0], 0)
        depth += {b"<": 1, b">": -1}.get(sign[0], 0) if not brackets else 0
        if depth == 0:
            return sign.end()
    return 0


def _param(piece: bytes) -> TemplateParam:
    declared, _, default = _SETS.sub(b"\0", piece, count=1).partition(b"\0")
    names = IDENTIFIER.findall(declared)
    name = names[-1] if names and names[-1] not in (b"typename", b"class", b"int", b"bool") else b""
    pack = b"..." in declared
    type_ = bool(name) and not pack and declared.split()[:1] in ([b"typename"], [b"class"])
    return TemplateParam(name, default.strip() or None, pack, type_)


def deduced(
    wanted: Sequence[bytes],
    params: Sequence[Param],
    arguments: Sequence[bytes],
    text: bytes,
    known: Set[bytes] = frozenset(),
) -> Mapping[bytes, bytes]:
    """Template arguments from a call's arguments, for parameters whose whole type is a template parameter.

    `text` holds the declarations of what is passed, comments and literals blanked; `known` are the names of
    types, which tell `Axpy(2, x)` from a call.
    """
    types: dict[bytes, bytes] = {}
    for param, argument in zip(params, arguments, strict=False):
        words = [w for w in IDENTIFIER.findall(param.type.encode()) if w not in _NO_TYPE]
        if len(words) != 1 or words[0] not in wanted or words[0] in types:
            continue
        type_, stars = type_of(argument, text, known)
        if type_:
            types[words[0]] = type_ + b"*" * max(0, stars - param.type.count("*"))
    return types


def type_of(argument: bytes, text: bytes, known: Set[bytes] = frozenset()) -> tuple[bytes | None, int]:
    """The type of an expression without its stars, and how many; None: not known.

    `text` leads up to it; `known` are the names of types.
    """
    plain = argument.strip()
    constructed = _CONSTRUCTED.match(plain)
    if constructed and closing(plain, constructed.end()) == len(plain):
        called = plain[constructed.end() :]
        if called == b"()" or called.endswith(b"}") or constructed[2] in known:
            return b"".join(constructed[1].split()), 0
    if number := _NUMBER.match(plain):
        if number[1]:
            return (b"unsigned int" if b"u" in number[1].lower() else b"int"), 0
        return (b"float" if number[3] else b"double"), 0
    if plain in (b"true", b"false"):
        return b"bool", 0
    if (cast := _POINTER_CAST.match(plain)) or (cast := _NAMED_CAST.match(plain)):
        return _bare_type(cast[1]), len(cast[2])
    if element := _ELEMENT_CALL.search(plain):
        return element[1], 1
    unwrapped = re.sub(rb"\A(?:[\w:]*raw_pointer_cast\s*\(|[(&*\s])+", b"", plain)
    name = IDENTIFIER.match(unwrapped)
    if name is None:
        return None, 0
    stars = plain[: len(plain) - len(unwrapped)].count(b"&") - plain[: len(plain) - len(unwrapped)].count(
        b"*"
    )
    rest = unwrapped[name.end() :]
    stars -= re.match(rb"\s*\[", rest) is not None
    return _declared(name[0], text, stars, known)


def _declared(name: bytes, text: bytes, stars: int, known: Set[bytes]) -> tuple[bytes | None, int]:
    """The type with which the text declares a name, `stars` added to its own; the last declaration counts."""
    word = re.escape(name)
    holder = re.search(
        rb"\b[\w:]*(?:vector|array|ptr|Tensor|Buffer)\w*\s*<\s*([\w:]+)[^<>;]*>\s*[&*]*\s*" + word, text
    )
    if holder is not None:
        return holder[1], 1
    for mention in reversed(list(re.finditer(rb"\b" + word + rb"\b\s*([=;,)\[{]|\Z)", text))):
        before = text[max(0, mention.start() - MAX_DECLARATION_BYTES) : mention.start()]
        statement = before[max(before.rfind(sign) for sign in (b";", b"{", b"}")) + 1 :]
        before = before[max(before.rfind(sign) for sign in (b";", b"{", b"}", b"(", b")", b"=")) + 1 :]
        if mention[1] == b"=" and _AUTO.fullmatch(before):
            value = text[mention.end() : text.find(b";", mention.end())]
            type_, made_stars = type_of(value, text[: mention.start()], known)
            return type_, made_stars + stars
        first, _, last = before.rpartition(b",") if b"," in before else (b"", b"", before)
        if b"," in before and not last.strip(b" *&\n\t"):  # `float *a, *b`
            stars_here = last.count(b"*")
            match = _DECLARATION.match(first.split(b",")[0])
            if match is None and len(listed := split_arguments(statement)) > 1:  # `float a = 2, *b`
                match = _DECLARATION.match(listed[0])
        else:
            match = _DECLARED_LAST.fullmatch(last)
            stars_here = match[2].count(b"*") if match else 0
        if match is not None and (type_ := _bare_type(match[1])):
            return type_, stars_here + (mention[1] == b"[") + stars
    return None, 0


def _bare_type(text: bytes) -> bytes | None:
    if b"<" not in text and (builtin := _BUILTIN.search(text)):
        return builtin[1]
    words = [word for word in text.split() if word not in _NO_TYPE]
    return words[-1] if words and not words[-1].isdigit() else None
