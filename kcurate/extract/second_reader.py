"""Asks libclang (extra `clang`) how it reads a unit: a sandboxed process for each, with a time limit.

Without the extra, the CUDA headers or a sandbox there is no second reader. What a process answers may be
anything, since it has read a stranger's text. Not covered: the process (`kcurate.extract.clang_worker`), what
a reading is good for (`kcurate.cuda_source.launches.second_reading`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution
from itertools import accumulate
from pathlib import Path

from kcurate.backends.cuda import nvrtc
from kcurate.core import codec, compile_cache, limited_output, time_limits
from kcurate.core.notes import Note
from kcurate.cuda_source import Reading
from kcurate.errors import RecordError
from kcurate.judge.workers.inside import isolation

PACKAGE = "libclang-ng"
UNIT, PRECOMPILED = "unit.cu", "first.pch"
# An alias of this name and a number behind the text holds an instance that is asked about.
STATED = "kcurate_stated_"
MAX_ANSWER_BYTES = 16 << 20
MAX_PRECOMPILED_BYTES = 256 << 20
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.extract.clang_worker import main; main(*map(json.loads, sys.argv[2:]))"
)
# The C library's headers.
SYSTEM = "/usr/include", "/usr/local/include"
# Absolute, since a precompiled header holds the path of its source.
HEADERS = Path(__file__).resolve().with_name("clang_headers")
FIRST = HEADERS / "first.h"
WORKER = HEADERS.with_name("clang_worker.py")
_OPTIONS = (
    "-x", "cuda", "--cuda-host-only", "--cuda-gpu-arch=sm_90", "-nocudalib", "-nostdinc++", "-ferror-limit=0",
    "-Wno-everything", "-D_ALLOW_UNSUPPORTED_LIBCPP",
)  # fmt: skip
_BEGUN = "-nocudainc", "-include-pch", PRECOMPILED
CRASHED = "libclang crashed, or took too long"
# The headers of CUDA 13 need C++17.
_NEWER = "20", "23"
_OPEN = re.compile(rb"<(\s*)<(\s*)<")
_CLOSE = re.compile(rb">(\s*)>(\s*)>(?=\s*\()")


@dataclass(frozen=True)
class Clang:
    """libclang's options, the folders that it reads, and a hash of what a reading depends on but the text."""

    options: tuple[str, ...]
    folders: tuple[str, ...]
    identity: str

    def read(self, text: bytes, expressions: Sequence[str], standard: str | None) -> Reading:
        """Its reading of a text; one is kept for later runs."""
        key = compile_cache.key(self.identity, standard, text, tuple(expressions))
        place = compile_cache.folder("clang") / f"{key}.json"
        try:
            if (known := compile_cache.find(place)) is not None:
                return codec.from_data(Reading, json.loads(known))
            reading = self._read(text, expressions, standard)
            if reading.failed is None:
                compile_cache.keep(place, codec.canonical_json(codec.to_data(reading)))
            return reading
        except (OSError, RecordError, ValueError, RecursionError) as error:
            return Reading(failed=f"no reading by libclang: {error}")

    def _read(self, text: bytes, expressions: Sequence[str], standard: str | None) -> Reading:
        options = [*self.options, standard if standard and standard.endswith(_NEWER) else "-std=c++17"]
        asked = (f"using {STATED}{number} = decltype(&{each});" for number, each in enumerate(expressions))
        lines = [_closed_up(text), *(line.encode() for line in asked)]
        text = b"\n".join(lines)
        reading = Reading(failed="nothing is precompiled")
        if begun := self._precompiled(options):
            reading = self._answer({UNIT: text, PRECOMPILED: begun}, [*options, *_BEGUN])
        # What is precompiled fits its headers alone, and these may have been installed anew.
        if reading.failed not in (None, CRASHED):
            reading = self._answer({UNIT: text}, options)
        starts = list(accumulate(len(line) + 1 for line in lines))
        refused = [(bisect_right(starts, at) - 1, why) for at, why in reading.errors if at >= starts[0]]
        errors = tuple(each for each in reading.errors if each[0] < starts[0])
        return replace(reading, refused=tuple(refused), errors=errors)

    def _answer(self, files: Mapping[str, bytes], options: Sequence[str]) -> Reading:
        answer = self._run(UNIT, files, options)
        return codec.from_data(Reading, json.loads(answer)) if answer else Reading(failed=CRASHED)

    def _precompiled(self, options: Sequence[str]) -> bytes:
        """What every file begins with, made once; empty: it cannot be made."""
        place = compile_cache.folder("clang") / f"{compile_cache.key(self.identity, *options)}.pch"
        if (known := compile_cache.find(place)) is not None:
            return known
        if made := self._run(str(FIRST), {}, options, PRECOMPILED):
            compile_cache.keep(place, made)
        return made

    def _run(self, source: str, files: Mapping[str, bytes], options: Sequence[str], made: str = "") -> bytes:
        """What a process wrote to `made`, else printed; empty: it crashed or took too long."""
        with tempfile.TemporaryDirectory(prefix="kcurate-clang-") as name:
            folder = Path(name)
            for path, content in files.items():
                (folder / path).write_bytes(content)
            words = [[each for each in sys.path if each], source, made, STATED, options, self.folders]
            kept = {each: os.environ[each] for each in ("PATH", "LD_LIBRARY_PATH") if each in os.environ}
            process = subprocess.Popen(
                [sys.executable, "-c", BOOT, *map(json.dumps, words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**kept, "LC_ALL": "C.UTF-8", "TMPDIR": name, "PYTHONDONTWRITEBYTECODE": "1"},
            )
            try:
                answer, _ = limited_output.collected(process, time_limits.READ_WITH_CLANG_S, MAX_ANSWER_BYTES)
            except subprocess.TimeoutExpired:
                return b""
            finally:
                process.kill()
                process.communicate()
            if process.returncode or not made:
                return b"" if process.returncode else answer
            with (folder / made).open("rb") as file:
                return file.read(MAX_PRECOMPILED_BYTES)


def find(note: Note) -> Clang | None:
    """libclang, if it can be used here; `note` receives why an installed one cannot."""
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:
        return None
    cuda = nvrtc.include_folders()
    if not cuda or not isolation.confined():
        lacking = (
            "a sandbox (see kcurate doctor)" if cuda else "CUDA's headers (pip install 'kcurate[clang]')"
        )
        note(f"libclang is not asked, for want of {lacking}")
        return None
    native = Path(str(installed.locate_file("clang/native")))
    options = (
        *_OPTIONS, f"--cuda-path={cuda[0].parent}", "-resource-dir", str(native / "resource"),
        *(word for folder in (native / "libcxx", *cuda, HEADERS) for word in ("-isystem", str(folder))),
    )  # fmt: skip
    sources = FIRST.read_bytes(), WORKER.read_bytes()
    dates = [path.stat().st_mtime_ns for path in (FIRST, native)]
    identity = compile_cache.key(installed.version, nvrtc.header_versions(), options, sources, dates)
    return Clang(options, tuple(map(str, (native, HEADERS, *SYSTEM, *nvrtc.header_folders()))), identity)


def _closed_up(text: bytes) -> bytes:
    """The text with `<<<` and `>>>` of launches in one piece, and everything else where it was."""
    return _CLOSE.sub(rb">>>\1\2", _OPEN.sub(rb"<<<\1\2", text))
