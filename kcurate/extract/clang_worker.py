"""Reads one unit with libclang in a sandboxed process and writes the result as JSON.

The text is untrusted and contains all files of its unit, so the process may read only headers and its own
folder. Reported instances are those that the compiler itself creates: each has a use and concrete arguments.
Not covered: starting the process and judging its answer (`kcurate.extract.second_reader`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clang import cindex

from kcurate.judge.workers.inside import isolation

# `CXTranslationUnit_Flags` that the bindings lack. KEEP_GOING: parsing continues behind a missing header.
KEEP_GOING, FOR_SERIALIZATION = 0x200, 0x10
_KINDS = cindex.CursorKind
_FUNCTIONS = (_KINDS.FUNCTION_DECL, _KINDS.FUNCTION_TEMPLATE, _KINDS.CXX_METHOD)
_CLASSES = (
    _KINDS.CLASS_DECL, _KINDS.STRUCT_DECL, _KINDS.UNION_DECL, _KINDS.ENUM_DECL, _KINDS.CLASS_TEMPLATE,
    _KINDS.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
)  # fmt: skip
_METHODS = (_KINDS.CXX_METHOD, _KINDS.CONSTRUCTOR, _KINDS.DESTRUCTOR, _KINDS.CONVERSION_FUNCTION)
# These stand in a declaration that is meant, or are no declarations.
_INNER = (
    _KINDS.NAMESPACE, _KINDS.PARM_DECL, _KINDS.TEMPLATE_TYPE_PARAMETER, _KINDS.TEMPLATE_NON_TYPE_PARAMETER,
    _KINDS.TEMPLATE_TEMPLATE_PARAMETER,
)  # fmt: skip
# So many cursors are looked at for what the kernels of a source mean.
MAX_WALKED = 200_000
_BLOCKS = (_KINDS.NAMESPACE, _KINDS.LINKAGE_SPEC, _KINDS.UNEXPOSED_DECL)


def main(source: str, output: str, stated: str, options: Sequence[str], folders: Sequence[str]) -> None:
    """Write the reading of file `source` to `output`, as JSON; or its precompiled header, to `*.pch`.

    Aliases whose names begin with `stated` hold the name expressions to look up. `folders` may be read.
    """
    index = cindex.Index.create(excludeDecls=True)  # loads the library, which the sandbox hides
    inside = isolation.enter("compile", "clang", readable=[Path(folder) for folder in folders])
    try:
        if not inside["files"]:
            answer = {"failed": "libclang could not be sandboxed"}
        elif output.endswith(".pch"):
            index.parse(source, args=list(options), options=KEEP_GOING | FOR_SERIALIZATION).save(output)
            return
        else:
            answer = _read(index.parse(source, args=list(options), options=KEEP_GOING), stated)
    except (cindex.TranslationUnitLoadError, cindex.TranslationUnitSaveError) as error:
        answer = {"failed": f"libclang: {error}"}
    if not output.endswith(".pch"):  # without a file, nothing is precompiled
        Path(output).write_text(json.dumps(answer))


def _read(unit: Any, stated: str) -> dict[str, Any]:
    """The fields of a `Reading` of the translation unit."""
    kernels: list[dict[str, Any]] = []
    walked: dict[int, list[Any]] = {}
    instances: list[dict[str, Any]] = []
    meant: list[tuple[int, str]] = []
    for cursor in _declared(unit.cursor, unit.spelling):
        if cursor.kind == _KINDS.TYPE_ALIAS_DECL and cursor.spelling.startswith(stated):
            number = int(cursor.spelling.removeprefix(stated))
            meant += [(number, id_) for id_ in (_meant(cursor),) if id_ is not None]
        elif cursor.kind in _FUNCTIONS and _is_kernel(cursor):
            name, start = cursor.spelling, cursor.extent.start.offset
            template = cursor.specialized_template
            if template is not None and template.extent.start.offset <= start < template.extent.end.offset:
                walked.setdefault(template.extent.start.offset, []).append(cursor)
                arguments = _arguments(cursor)
                instances.append({"name": name, "at": start, "id": cursor.get_usr(), "arguments": arguments})
            elif cursor.is_definition():
                walked.setdefault(start, []).append(cursor)
                span = {"start": start, "end": cursor.extent.end.offset}
                is_template = cursor.kind == _KINDS.FUNCTION_TEMPLATE
                kernels.append({"name": name, **span, "template": is_template})
    symbols = _Symbols(unit.spelling)
    reached = [
        (start, sorted(places)) for start, cursors in walked.items()
        if (places := symbols.reached(cursors)) is not None
    ]  # fmt: skip
    errors = [
        (error.location.offset if _is_in(unit.spelling, error) else -1, error.spelling)
        for error in unit.diagnostics
        if error.severity >= cindex.Diagnostic.Error
    ]
    return {"kernels": kernels, "instances": instances, "stated": meant, "errors": errors, "reached": reached}


def _declared(cursor: Any, source: str) -> Iterator[Any]:
    """The declarations in the source itself, namespaces entered; template instances included."""
    for child in cursor.get_children():
        if _is_in(source, child):
            if child.kind in _BLOCKS:
                yield from _declared(child, source)
            else:
                yield child


def _is_in(source: str, located: Any) -> bool:
    """Whether a cursor or diagnostic is located in the source, macro calls there included."""
    return located.location.file is not None and bool(located.location.file.name == source)


class _Symbols:
    """Where the declarations of a source begin that others mean, found once for each.

    Which function a call in a template means, its instances tell.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._meant: dict[tuple[str, int], list[Any]] = {}
        self._left = MAX_WALKED

    def reached(self, cursors: Sequence[Any]) -> set[int] | None:
        """Where everything begins that the cursors mean, and what it means in turn; themselves too.

        None: that is a whole library.
        """
        seen, pending = {_key(each) for each in cursors}, [*cursors]
        while pending:
            for each in self._of(pending.pop()):
                if (key := _key(each)) not in seen:
                    seen.add(key)
                    pending.append(each)
            if self._left < 0:
                return None
        return {start for _, start in seen}

    def _of(self, cursor: Any) -> list[Any]:
        key = _key(cursor)
        if key not in self._meant:
            # What is declared in a class stays in it; a template stays beside what is made of it.
            around = [cursor.specialized_template, cursor.get_definition()]
            if (parent := cursor.semantic_parent) is not None and parent.kind in _CLASSES:
                around.append(parent)
            found = {}
            for each in (*self._inside(cursor), *around):
                if each and each.kind not in _INNER and _is_in(self._source, each):
                    found[_key(each)] = each
            self._meant[key] = [*found.values()]
        return self._meant[key]

    def _inside(self, cursor: Any) -> Iterator[Any]:
        """What is meant in a declaration, but for the methods in a class that only the host may call."""
        pending = [cursor]
        while pending and self._left >= 0:
            self._left -= 1
            each = pending.pop()
            if not each.kind.is_declaration():
                yield each.referenced
            children = list(each.get_children())
            is_host = each.kind in _METHODS and not any(c.kind == _KINDS.CUDADEVICE_ATTR for c in children)
            if each == cursor or not is_host:
                pending += children


def _key(cursor: Any) -> tuple[str, int]:
    return str(cursor.get_usr()), int(cursor.extent.start.offset)


def _is_kernel(cursor: Any) -> bool:
    return any(child.kind == _KINDS.CUDAGLOBAL_ATTR for child in cursor.get_children())


def _meant(alias: Any) -> str | None:
    """The id of the function whose type an alias has; None: the alias was not understood."""
    references = (node for node in alias.walk_preorder() if node.kind == _KINDS.DECL_REF_EXPR)
    functions = (reference.referenced for reference in references)
    return next((str(function.get_usr()) for function in functions if function is not None), None)


def _arguments(instance: Any) -> str:
    """The template arguments of an instance as the compiler prints them; empty: it prints none."""
    printed = instance.pretty_printed(cindex.PrintingPolicy.create(instance))
    from_arguments = str(printed).partition(f" {instance.spelling}<")[2]
    depth = 1
    for at, letter in enumerate(from_arguments):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if not depth:
            return from_arguments[:at]
    return ""
