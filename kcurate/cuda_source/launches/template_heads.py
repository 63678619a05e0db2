"""Template heads, and the types of the expressions that launches and calls pass, both read from the text.

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
# An assignment, not a comparison.
_ASSIGNMENT = re.compile(rb"(?<![=<>!])=(?!=)")
# Names of type parameters that commonly stand for an integer type.
_INDEX = re.compile(
    rb"(?i)\A(?:i|idx|ind|int|id|off|size|count|key|label)|(?:id|idx|ind|index|int|offset|size)_?(?:t|type)?\Z"
)
# A type and the name that it declares are within so many bytes.
MAX_DECLARATION_BYTES = 300
_NO_TYPE = frozenset(b"const volatile static struct return typename constexpr new else auto inline".split())

_SIGNS = re.compile(rb"[()<>]")


@dataclass(frozen=True)
class TemplateParam:
    """One template parameter: `default` as written (None: none), `pack` for `class... Ts`.

    `type`: whether it is a type parameter that is no pack.
    """

    name: bytes
    default: bytes | None
    pack: bool
    type: bool = False

    @property
    def usual(self) -> bytes:
        """The type that a parameter of this name commonly has: `int` for index-like names, else `float`."""
        return b"int" if _INDEX.search(self.name) else b"float"


def template_params(header: bytes) -> tuple[TemplateParam, ...]:
    """The parameters of a template head: `template <class T, int N = 4>` gives T and N."""
    inside = header[header.find(b"<") + 1 : head_end(header) - 1]
    return tuple(map(_param, split_arguments(inside, angles=True)))


def head_end(header: bytes) -> int:
    """The offset behind the template head that a header begins with; 0: it has none."""
    start = header.find(b"<")
    if not header.lstrip().startswith(b"template") or start < 0:
        return 0
    depth = parentheses = 0
    for bracket in _SIGNS.finditer(header, start):
        parentheses += {b"(": 1, b")": -1}.get(bracket[0], 0)
        depth += {b"<": 1, b">": -1}.get(bracket[0], 0) if not parentheses else 0
        if depth == 0:
            return bracket.end()
    return 0


def _param(piece: bytes) -> TemplateParam:
    """One parameter of a template head, from its text."""
    declared, _, default = _ASSIGNMENT.sub(b"\0", piece, count=1).partition(b"\0")
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
    """Template arguments deduced from a call, for parameters whose whole type is a template parameter.

    For `template <class T> void f(T *x)` and a call `f(data)` behind `float *data`, that is `{T: float}`.
    `text` holds the declarations of what is passed, with comments and literals blanked. `known` are the names
    of types: they tell the constructor `Axpy(2, x)` from a call.
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
    """The type of an expression, without stars, and its number of stars; the type is None if unknown.

    `text` is the code before the expression; `known` are the names of types.
    """
    expression = argument.strip()
    constructed = _CONSTRUCTED.match(expression)
    if constructed and closing(expression, constructed.end()) == len(expression):
        called = expression[constructed.end() :]
        if called == b"()" or called.endswith(b"}") or constructed[2] in known:
            return b"".join(constructed[1].split()), 0
    if number := _NUMBER.match(expression):
        if number[1]:
            return (b"unsigned int" if b"u" in number[1].lower() else b"int"), 0
        return (b"float" if number[3] else b"double"), 0
    if expression in (b"true", b"false"):
        return b"bool", 0
    if (cast := _POINTER_CAST.match(expression)) or (cast := _NAMED_CAST.match(expression)):
        return _bare_type(cast[1]), len(cast[2])
    if element := _ELEMENT_CALL.search(expression):
        return element[1], 1
    unwrapped = re.sub(rb"\A(?:[\w:]*raw_pointer_cast\s*\(|[(&*\s])+", b"", expression)
    name = IDENTIFIER.match(unwrapped)
    if name is None:
        return None, 0
    prefix = expression[: len(expression) - len(unwrapped)]
    stars = prefix.count(b"&") - prefix.count(b"*")
    stars -= re.match(rb"\s*\[", unwrapped[name.end() :]) is not None  # an element
    return _declared(name[0], text, stars, known)


def _declared(name: bytes, text: bytes, stars: int, known: Set[bytes]) -> tuple[bytes | None, int]:
    """The type with which the text declares a name, and its number of stars, `stars` included.

    The last declaration counts.
    """
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
            type_, value_stars = type_of(value, text[: mention.start()], known)
            return type_, value_stars + stars
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
    """The type without `const`, `static` and the like; None: there is no type in the text."""
    if b"<" not in text and (builtin := _BUILTIN.search(text)):
        return builtin[1]
    words = [word for word in text.split() if word not in _NO_TYPE]
    return words[-1] if words and not words[-1].isdigit() else None
