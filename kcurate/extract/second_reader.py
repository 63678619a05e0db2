"""Has libclang (extra `clang`) read a unit, in a sandboxed process with a time limit for each text.

Without the extra, the CUDA headers or a sandbox there is no second reader. A process has parsed untrusted
text, so its answer is untrusted too. Not covered: the process itself (`kcurate.extract.clang_worker`), and
what a reading is used for (`kcurate.cuda_source.launches.second_reading`).
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution
from itertools import accumulate
from pathlib import Path

from kcurate.backends.cuda import nvrtc
from kcurate.core import codec, compile_cache, time_limits
from kcurate.core.notes import Note
from kcurate.cuda_source import Reading
from kcurate.errors import RecordError
from kcurate.judge.workers.inside import isolation
from kcurate.judge.workers.nursery import run_limited

PACKAGE = "libclang-ng"
UNIT, PRECOMPILED, ANSWER = "unit.cu", "first.pch", "answer.json"
# The names of the aliases that hold name expressions: this and the expression's number.
STATED = "kcurate_stated_"
# The most bytes of what a process writes.
MAX_BYTES = {ANSWER: 16 << 20, PRECOMPILED: 256 << 20}
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.extract.clang_worker import main; main(*map(json.loads, sys.argv[2:]))"
)
# The C library's headers.
SYSTEM = "/usr/include", "/usr/local/include"
# Absolute, since a precompiled header contains the path of its source.
HEADERS = Path(__file__).resolve().with_name("clang_headers")
FIRST = HEADERS / "first.h"
WORKER = HEADERS.with_name("clang_worker.py")
_OPTIONS = (
    "-x", "cuda", "--cuda-host-only", "--cuda-gpu-arch=sm_90", "-nocudalib", "-nostdinc++", "-ferror-limit=0",
    "-Wno-everything", "-D_ALLOW_UNSUPPORTED_LIBCPP",
)  # fmt: skip
_WITH_PRECOMPILED = "-nocudainc", "-include-pch", PRECOMPILED
CRASHED = "libclang crashed, or took too long"
# The headers of CUDA 13 need C++17.
_NEWER = "20", "23"
_OPEN = re.compile(rb"<(\s*)<(\s*)<")
_CLOSE = re.compile(rb">(\s*)>(\s*)>(?=\s*\()")


@dataclass(frozen=True)
class Clang:
    """How to run libclang: its options and the folders it may read.

    `identity` is a hash of everything that a reading depends on, except for the text.
    """

    options: tuple[str, ...]
    folders: tuple[str, ...]
    identity: str

    def read(self, text: bytes, expressions: Sequence[str], standard: str | None) -> Reading:
        """libclang's reading of a text and of name expressions; readings are cached for later runs."""
        key = compile_cache.key(self.identity, standard, text, tuple(expressions))
        path = compile_cache.folder("clang") / f"{key}.json"
        try:
            if (cached := compile_cache.find(path)) is not None:
                return codec.from_data(Reading, json.loads(cached))
            reading = self._read(text, expressions, standard)
            if reading.failed is None:
                compile_cache.keep(path, codec.canonical_json(codec.to_data(reading)))
            return reading
        except (OSError, RecordError, ValueError, RecursionError) as error:
            return Reading(failed=f"no reading by libclang: {error}")

    def _read(self, text: bytes, expressions: Sequence[str], standard: str | None) -> Reading:
        """The reading, not cached.

        Each expression becomes an alias appended to the text, so an error behind the text's end belongs to an
        expression.
        """
        options = [*self.options, standard if standard and standard.endswith(_NEWER) else "-std=c++17"]
        aliases = (
            f"using {STATED}{number} = decltype(&{expression});"
            for number, expression in enumerate(expressions)
        )
        lines = [_closed_up(text), *(line.encode() for line in aliases)]
        text = b"\n".join(lines)
        reading = Reading(failed="nothing is precompiled")
        if header := self._precompiled(options):
            reading = self._answer({UNIT: text, PRECOMPILED: header}, [*options, *_WITH_PRECOMPILED])
        # A precompiled header fails if the headers it was made from have been installed anew since.
        if reading.failed not in (None, CRASHED):
            reading = self._answer({UNIT: text}, options)
        starts = list(accumulate(len(line) + 1 for line in lines))
        refused = [(bisect_right(starts, at) - 1, why) for at, why in reading.errors if at >= starts[0]]
        errors = tuple((at, why) for at, why in reading.errors if at < starts[0])
        return replace(reading, refused=tuple(refused), errors=errors)

    def _answer(self, files: Mapping[str, bytes], options: Sequence[str]) -> Reading:
        """The reading of one process; `failed` is set if the process gave none."""
        answer = self._run(UNIT, files, options, ANSWER)
        return codec.from_data(Reading, json.loads(answer)) if answer else Reading(failed=CRASHED)

    def _precompiled(self, options: Sequence[str]) -> bytes:
        """The precompiled header that every text begins with, cached; empty: it cannot be compiled."""
        path = compile_cache.folder("clang") / f"{compile_cache.key(self.identity, *options)}.pch"
        if (cached := compile_cache.find(path)) is not None:
            return cached
        if header := self._run(str(FIRST), {}, options, PRECOMPILED):
            compile_cache.keep(path, header)
        return header

    def _run(self, source: str, files: Mapping[str, bytes], options: Sequence[str], output: str) -> bytes:
        """What a process wrote to the file `output`; empty if it wrote none, crashed or took too long.

        `files` are put into its working folder first. `output` is `ANSWER` or `PRECOMPILED`.
        """
        with tempfile.TemporaryDirectory(prefix="kcurate-clang-") as scratch:
            folder = Path(scratch)
            for path, content in files.items():
                (folder / path).write_bytes(content)
            import_path = [entry for entry in sys.path if entry]
            arguments = [import_path, source, output, STATED, options, self.folders]
            command = [sys.executable, "-c", BOOT, *map(json.dumps, arguments)]
            process = run_limited(command, scratch, time_limits.READ_WITH_CLANG_S, _ENVIRONMENT)
            if process is None or process.returncode:
                return b""
            try:
                with (folder / output).open("rb") as file:
                    return file.read(MAX_BYTES[output])
            except FileNotFoundError:
                return b""


def find(note: Note) -> Clang | None:
    """libclang as installed; None: it cannot be used here. `note` gets the reason if it is installed."""
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
    """The text with the blanks inside `<<<` and `>>>` of launches moved behind them; no other byte moves."""
    return _CLOSE.sub(rb">>>\1\2", _OPEN.sub(rb"<<<\1\2", text))
