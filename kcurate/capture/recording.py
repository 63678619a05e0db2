"""Turns the recorders' lines into a record for each kernel, with described contents.

Element types come from the kernel's parameters: those in its mangled name, else those that extract found. Not
covered: describing contents (`describing`), writing the records (`stage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from kcurate import records
from kcurate.capture.describing import described
from kcurate.capture.raw import RawProcess, demangled, of_a_recorder
from kcurate.core import store
from kcurate.core.grouping import grouped
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.problem.c_types import Element, element
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.triton_launch import C_TYPES

# If no generator makes the values, this many bytes of them are kept for people to look at.
SAMPLE_BYTES = 64 << 10
# Threads that describe contents; NumPy releases the interpreter lock meanwhile.
THREADS = 4


@dataclass(frozen=True)
class Texts:
    """Extracted kernels by name, with their code, for types that a mangled name does not have."""

    kernels: Mapping[str, Sequence[tuple[records.Kernel, str]]]

    def of(self, name: str, count: int) -> tuple[records.Kernel, str] | None:
        """The first kernel of this name with `count` parameters."""
        same = self.kernels.get(Demangled.of(name).base, ())
        return next((candidate for candidate in same if len(candidate[0].params) == count), None)


class Describer:
    """Describes the buffers of one process.

    `data`: the folder for values; `keep`: keep those of all buffers.
    """

    def __init__(self, folder: Path, texts: Texts, data: Path, *, keep: bool) -> None:
        self._folder, self._texts, self._data, self._keep = folder, texts, data, keep
        # Descriptions by file, element type and size, since several launches may share a file.
        self._described: dict[tuple[str, Element, int], records.Contents] = {}

    def captures(self, process: RawProcess) -> list[records.Capture]:
        """A record for each recorded kernel; different `extern "C"` kernels may have the same name.

        Raises:
            RecordError: a line that a recorder would not write.
        """

        def parameters(line: Mapping[str, Any]) -> object:
            if process.source == "triton":
                return tuple(line["types"])
            return None if line["args"] is None else tuple(len(arg["hex"]) for arg in line["args"])

        with of_a_recorder(self._folder), ThreadPoolExecutor(THREADS) as self._pool:
            forms = process.forms.items()
            kernels = grouped(((str(line["kernel"]), parameters(line)), (form, line)) for form, line in forms)
            return [self._capture(process, name, lines) for (name, _), lines in kernels.items()]

    def _capture(
        self, process: RawProcess, mangled: str, lines: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> records.Capture:
        name, types, code = self._signature(process, mangled, [line for _, line in lines])
        launches = [self._launch(line, types, code, process.counts.get(form, 1)) for form, line in lines]
        return records.Capture(
            program=process.program,
            kernel=name,
            mangled=mangled,
            source=process.source,
            device=process.device,
            params=types,
            launches=tuple(launches),
            after={demangled(other): times for other, times in process.launches_between(mangled).items()},
            complete=process.ended and not {"limit", "lost", "hook"} & process.notes.keys(),
            file=lines[0][1].get("file"),
        )

    def _signature(
        self, process: RawProcess, mangled: str, lines: Sequence[Mapping[str, Any]]
    ) -> tuple[str, tuple[str, ...], str]:
        """A kernel's name, the known types of its parameters, and its code."""
        if process.source == "triton":
            return mangled.rpartition(".")[2], tuple(lines[0]["types"]), ""
        name = demangled(mangled)
        text = self._texts.of(name, max((len(line["args"] or ()) for line in lines), default=0))
        types = Demangled.of(name).params
        if types is None:
            types = tuple(param.type for param in text[0].params) if text else ()
        return name, types, text[1] if text else ""

    def _launch(
        self, line: Mapping[str, Any], types: Sequence[str], code: str, times: int
    ) -> records.CapturedLaunch:
        args = tuple(
            records.CapturedArg(
                arg["hex"],
                tuple(records.CapturedPointer(**pointer) for pointer in arg["pointers"]),
                *(tuple(arg[key]) if key in arg else None for key in ("shape", "strides")),
            )
            for arg in line["args"] or ()
        )
        elements = _elements(args, [kind for kind in types if kind != "constexpr"], code)
        map_buffers = self._pool.map if any(buffer["before"] for buffer in line["buffers"]) else map
        return records.CapturedLaunch(
            grid=tuple(line["grid"]),
            block=tuple(line["block"]),
            args=args,
            buffers=tuple(map_buffers(self._buffer, line["buffers"], map(elements.get, count()))),
            symbols=tuple(
                self._symbol(symbol, code)
                for symbol in line.get("symbols", ())
                if not code or Demangled.of(demangled(str(symbol["name"]))).base in code
            ),
            cluster=tuple(line["cluster"]) if line.get("cluster") else None,
            shared_bytes=line["shared"],
            cooperative=line["cooperative"],
            times=max(1, times),
            constexprs=line.get("constexprs", {}),
            num_stages=line.get("num_stages"),
        )

    def _buffer(self, line: Mapping[str, Any], kind: Element | None) -> records.CapturedBuffer:
        size = int(line["bytes"])
        before = self._contents(line["before"], size, kind)
        if before is not None and line.get("unknown") and before.facts.get("zeros") == 1:
            # An earlier kernel that did not run may have been meant to write it.
            extent_facts = {name: before.facts[name] for name in ("partial", "seen") if name in before.facts}
            before = records.Contents(before.dtype, before.count, facts=extent_facts)
        return records.CapturedBuffer(
            size_bytes=size,
            memory=line["memory"],
            changed=line["changed"],
            before=before,
            after=self._contents(line["after"], size, kind) if self._keep else None,
        )

    def _symbol(self, line: Mapping[str, Any], code: str) -> records.CapturedSymbol:
        name = Demangled.of(demangled(str(line["name"]))).base
        declared = _variables(code).get(name)
        kind = element(declared, {}, code) if declared else None
        before = self._contents(line["before"], int(line["bytes"]), kind)
        return records.CapturedSymbol(name, int(line["bytes"]), before)

    def _contents(self, name: str | None, size_bytes: int, kind: Element | None) -> records.Contents | None:
        """The description of a file of contents, as elements of a kind; None without a file or a kind."""
        path = self._folder / Path(name).name if name else None
        if path is None or kind is None or not path.is_file():
            return None
        if (described_before := self._described.get((path.name, kind, size_bytes))) is not None:
            return described_before
        dtype = numpy_dtype(kind.dtype)
        element_count = path.stat().st_size // dtype.itemsize
        values = np.memmap(path, dtype, "r", shape=(element_count,)) if element_count else np.empty(0, dtype)
        facts = described(values, kind.dtype, count=size_bytes // dtype.itemsize)
        if self._keep or facts.init is None:
            whole = path.read_bytes() if self._keep else values[: SAMPLE_BYTES // dtype.itemsize].tobytes()
            sample = store.content_id(whole)
            store.write_bytes(self._data / f"{sample}.bin", whole, durable=False)
            facts = replace(facts, sample=sample)
        return self._described.setdefault((path.name, kind, size_bytes), facts)


@lru_cache(maxsize=16)
def _variables(code: str) -> Mapping[str, str]:
    """The types of a file's device variables, by name."""
    text = Code(code.encode())
    return {
        variable.name: variable.type
        for word in ("__device__", "__constant__")
        for variable in text.globals_of_type(word)
    }


def _elements(args: Sequence[records.CapturedArg], types: Sequence[str], code: str) -> dict[int, Element]:
    """The element type of each buffer, by the buffer's number, as far as the parameters' types give it."""
    elements: dict[int, Element] = {}
    for arg, text in zip(args, types, strict=False):
        if text.count("*") != 1 or len(arg.pointers) != 1:
            continue
        kind = element(C_TYPES.get(text[1:], text), {}, code)
        if kind is not None:
            elements.setdefault(arg.pointers[0].buffer, kind)
    return elements
