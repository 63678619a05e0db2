"""The parameters of kernels as written: for records, and to check a plan against the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from kcurate.cuda_source.launches.template_heads import template_params
from kcurate.cuda_source.parse.items import Item, parse
from kcurate.cuda_source.preprocess.expansion import definitions
from kcurate.cuda_source.preprocess.macros import without_attributes
from kcurate.cuda_source.text.blanking import blank_comments, blank_literals
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.records import Param

_GLOBAL = re.compile(rb"__global__")
_RESTRICT = re.compile(rb"\b__restrict(?:__)?\b|\brestrict\b")
_WORD = re.compile(rb"[A-Za-z_]\w*")
# A macro that stands for a type or for qualifiers, such as `#define RESTRICT __restrict__`.
_WORDS = re.compile(rb"[A-Za-z_][\w\s*:]*")
MAX_NESTED = 4
_POINTER_NAME = re.compile(
    rb"typedef(?<!\wtypedef)\s+([\w:\s]+?\*)\s*(\w+)\s*;|using(?<!\wusing)\s+(\w+)\s*=\s*([\w:\s]+?\*)\s*;"
)
_NAME = re.compile(rb"([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)\Z")
_BUILTIN_LAST = frozenset(b"int float double char short long unsigned bool void const signed".split())


@lru_cache(maxsize=64)  # needed for each launch of a kernel
def params_of(header: bytes) -> tuple[Param, ...]:
    """The parameters in a function header (the text before the body) without comments and literals."""
    header = without_attributes(header)
    at = header.find(b"(", max(0, header.find(b"__global__")))
    end = closing(header, at) if at >= 0 else None
    if end is None:
        return ()
    pieces = split_arguments(header[at + 1 : end - 1], angles=True)
    return tuple(_param(piece) for piece in pieces if piece and piece != b"void")


@lru_cache(maxsize=1024)  # kernels of a file have many in common
def _param(text: bytes) -> Param:
    text = text.split(b"=")[0].strip()
    restrict = _RESTRICT.search(text) is not None
    text = _RESTRICT.sub(b" ", text).strip()
    match = _NAME.search(text)
    name, type_text = b"", text
    if match and match[1] not in _BUILTIN_LAST and text[: match.start()].strip():
        name, type_text = match[1], text[: match.start()] + (b"*" if match[2] else b"")
    type_text = b" ".join(type_text.split())
    if b"*" in type_text or b"&" in type_text:
        type_text = re.sub(rb"\s*([*&])\s*", rb"\1", type_text)
    return Param(
        name=name.decode(),
        type=type_text.decode("utf-8", "replace"),
        const=re.search(rb"\bconst\b", type_text.split(b"*")[0]) is not None,
        pointer=b"*" in type_text,
        restrict=restrict,
    )


def header_of(item: Item, text: bytes) -> bytes:
    """A function's header without comments and literals; macros that stand for words are replaced."""
    header = item.expansion[0] if item.expansion else blank_literals(text[item.start : item.header_end])
    named = _word_macros(text)
    for _ in range(MAX_NESTED):
        replaced = _WORD.sub(lambda word: named.get(word[0], word[0]), header)
        if replaced == header:
            break
        header = replaced
    return header


@lru_cache(maxsize=4)  # the same for all kernels of a text
def _word_macros(text: bytes) -> Mapping[bytes, bytes]:
    """The macros that expand to words or to nothing, with their expansion."""
    macros = ((macros.name, macros.body.strip()) for macros in definitions(blank_comments(text)))
    return {name: body for name, body in macros if not body or _WORDS.fullmatch(body)}


def params_in(item: Item, text: bytes) -> tuple[Param, ...]:
    """The parameters of a function of a unit; a parameter with an alias of a pointer type is a pointer."""
    header = header_of(item, text)
    pointers = {**_pointer_names(text), **{p.name: p.default for p in template_params(header) if p.default}}
    return tuple(_meant(param, pointers) for param in params_of(header))


def _meant(param: Param, pointers: Mapping[bytes, bytes]) -> Param:
    stands_for = pointers.get(param.type.removeprefix("const ").encode(), b"")
    if not stands_for.rstrip().endswith(b"*"):
        return param
    (meant,) = params_of(b"(" + stands_for + b" " + param.name.encode() + b")") or (param,)
    return replace(meant, restrict=param.restrict)


@lru_cache(maxsize=4)  # the same for all kernels of a text
def _pointer_names(text: bytes) -> Mapping[bytes, bytes]:
    """The pointer types behind `typedef` and `using` names."""
    if _POINTER_NAME.search(text) is None:  # then there is none without literals either
        return {}
    names = {
        match[2] or match[3]: match[1] or match[4] for match in _POINTER_NAME.finditer(blank_literals(text))
    }
    return {name: type_text.strip() for name, type_text in names.items()}


def qualified_kernel(code: str, name: str) -> str:
    """The name of a kernel of this code with its namespaces, as plans write it."""
    names = kernel_signatures(code.encode())
    return next((qualified for qualified in names if qualified.split("::")[-1] == name), name)


def kernel_signatures(code: bytes) -> dict[str, tuple[Param, ...]]:
    """The parameters of every `__global__` function that the code defines, by its qualified name."""
    if not _GLOBAL.search(code):
        return {}
    parsed = parse(code)
    return {
        item.qualified.decode("utf-8", "replace"): params_in(item, parsed.text)
        for item in parsed.items
        if item.kernel and item.names
    }
