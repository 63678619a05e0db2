"""The only reader and writer of record files: schema-checked, atomic, resumable, content-addressed.

A record is a file, or in a packed workspace a row of a shard; both are addressed by path. Not covered: shards
(`kcurate.core.packs`), the layout of a workspace (`kcurate.core.workspace`), records as plain data
(`kcurate.core.codec`)."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from kcurate.core import codec, json_text, own_files, packing, packs, resources
from kcurate.core.packs import exists as exists
from kcurate.core.packs import find as find
from kcurate.core.packs import is_folder as is_folder
from kcurate.core.packs import remove as remove
from kcurate.errors import InputError, RecordError
from kcurate.records import SIDES, BenchSize, Candidate, Language, Problem, SideName, Sizes, Verdict

T = TypeVar("T")

PAIR_SCHEMA = "kcurate/pair@1"
SUFFIXES: Mapping[Language, str] = {"cuda": ".cu", "torch": ".py", "triton": ".py"}
_PAIR_FILES = ("pair.json", *(f"{side}{suffix}" for side in SIDES for suffix in set(SUFFIXES.values())))


def content_id(*parts: bytes | str) -> str:
    """16 hex digits of the SHA-256 over the parts, each preceded by its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file atomically: readers, and a crash at any moment, see the old or the new content.

    `durable` False skips fsync, for files that a command can make again from its inputs. In both cases a
    killed process leaves no partial file.

    Raises:
        InputError: the folder cannot be written (read-only, full disk, a file in its place), or `path` is not
            a regular file (a folder, a device, a pipe).
    """
    with packs.writing(path) as place:
        _replace(path, data, durable=durable)
    packing.after_writing(place)


def _replace(path: Path, data: bytes, *, durable: bool) -> None:
    try:
        handle, name = _temporary(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o644)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(handle)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path) -> tuple[int, str]:
    """An open temporary file next to `path`, and its name; creates the folder if needed.

    Raises:
        InputError: `path` is not a regular file.
    """
    if path.exists() and not path.is_file():
        raise InputError("not a regular file", where=str(path), hint="choose another file")
    folder = path.parent
    if not os.path.isdir(folder):  # noqa: PTH112 - asked for every file that is written
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - of three levels, half the calls of `Path.mkdir`
    return tempfile.mkstemp(dir=folder, prefix=f".{path.name}.", suffix=".tmp")


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error that a file cannot be written."""
    hint = "check the folder's permissions and free space"
    if isinstance(error, FileExistsError | NotADirectoryError):
        hint = "a file is where a folder should be"
    return InputError(f"cannot write: {error.strerror}", where=str(path), hint=hint)


@cache
def _schemas() -> dict[str, Any]:
    """Every schema by file name; they refer to each other by these names."""
    return {
        path.name: json.loads(path.read_bytes()) for path in sorted(resources.schemas_dir().glob("*.json"))
    }


@cache
def _validator(schema: str) -> Any:
    from jsonschema_rs import Draft202012, Draft202012Validator, Registry

    if f"{schema}.json" not in _schemas():
        raise RecordError(f"no schema {schema}", where=str(resources.schemas_dir()))
    registry = Registry(list(_schemas().items()), draft=Draft202012)
    return Draft202012Validator(_schemas()[f"{schema}.json"], registry=registry)


@cache
def _explainer(schema: str) -> Any:
    """A `jsonschema` validator, for its error messages. It accepts NaN and infinity as numbers."""
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    schemas = [(name, Resource.from_contents(content)) for name, content in _schemas().items()]
    registry: Any = Registry().with_resources(schemas)
    return Draft202012Validator(_schemas()[f"{schema}.json"], registry=registry)


def check_schema(schema: str, data: Any, *, where: str) -> None:
    """Check plain data against `schemas/<schema>.json`.

    Raises:
        RecordError: it does not match; the message names the JSON path of the deepest cause.
    """
    try:
        if _validator(schema).is_valid(data):
            return
    except ValueError:  # not JSON, such as a key that is not a string
        pass
    from jsonschema.exceptions import best_match

    try:
        error = best_match(_explainer(schema).iter_errors(data))
    except RecursionError as deep:
        raise RecordError("nested too deeply", where=where, hint=f"see schemas/{schema}.json") from deep
    if error is not None:
        message = error.message if len(error.message) < 300 else error.message[:300] + "..."
        raise RecordError(f"{error.json_path}: {message}", where=where, hint=f"see schemas/{schema}.json")


def schema_of(cls: type[Any]) -> str:
    """The schema of a record type: its name in lower case."""
    return cls.__name__.lower()


def pretty_json(data: Any) -> bytes:
    """The bytes of a JSON file, formatted for people and diffs."""
    return (json_text.pretty(data) + "\n").encode()


def write_json(path: Path, record: Any, *, durable: bool = True) -> None:
    """Write a record as pretty JSON after checking it against its schema; `durable` as in `write_bytes`."""
    data = codec.to_data(record)
    check_schema(schema_of(type(record)), data, where=str(path))
    write_bytes(path, pretty_json(data), durable=durable)


def _load(path: Path) -> Any:
    return codec.parse(own_files.read(path), where=str(path))


def read_json(path: Path, cls: type[T]) -> T:
    """Read one record, schema-checked.

    Raises:
        InputError: the file cannot be read. RecordError: it is not a valid record of this type.
    """
    data = _load(path)
    check_schema(schema_of(cls), data, where=str(path))
    return codec.from_data(cls, data, where=str(path))


def put_aside(path: Path) -> Path:
    """Rename a record that cannot be read, so that its content is not lost; returns the new path."""
    aside = path.with_name(f"{path.name}.damaged")
    if path.is_file() or path.is_symlink():
        path.rename(aside)
    else:
        write_bytes(aside, own_files.read(path))
    remove(path)
    return aside


def append_jsonl(path: Path, record: Any) -> None:
    """Append one record as one line, in a single write that is on disk when this returns.

    Raises:
        InputError: it cannot be written completely (a full disk); the file is unchanged.
    """
    data = codec.to_data(record)
    check_schema(schema_of(type(record)), data, where=str(path))
    append_line(path, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def append_line(path: Path, text: str, *, durable: bool = True) -> int:
    """Append one line in a single write; if the last line is partial, a line break is written first.

    Returns the offset of its end in bytes. `durable` as in `write_bytes`.

    Raises:
        InputError: it cannot be written completely (a full disk); the file is unchanged.
    """
    with packs.writing(path):
        return _append(path, text.encode() + b"\n", durable=durable)


def _append(path: Path, line: bytes, *, durable: bool) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line  # a killed writer left a partial line: end it
            written = os.write(handle, line)
            if written != len(line):
                _undo(handle, written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(handle)
            return os.lseek(handle, 0, os.SEEK_CUR)
        finally:
            os.close(handle)
    except OSError as error:
        raise cannot_write(path, error) from error


def _undo(handle: int, written: int) -> None:
    """Remove the last `written` bytes, unless another process has appended since."""
    end = os.lseek(handle, 0, os.SEEK_CUR)
    if os.fstat(handle).st_size == end:
        os.ftruncate(handle, end - written)


def read_jsonl(path: Path, cls: type[T]) -> Iterator[T]:
    """Every valid record of a JSON-lines file; none if the file is missing.

    Invalid lines are ignored, for example one that a crash cut short: what they recorded will be made again.

    Raises:
        RecordError: the file is too large to be read.
    """
    if path.exists():
        own_files.check_size(path, own_files.MAX_LINES_BYTES)
    for line in packs.lines(path):
        try:
            record = codec.from_data(cls, codec.parse(line, where=str(path)))
        except RecordError:
            continue
        yield record


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause Python's garbage collector while many records are read, since records have no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def candidate_data(candidate: Candidate) -> dict[str, Any]:
    """The `pair.json` form: the code of each side is in a file next to it."""
    data: dict[str, Any] = {"schema": PAIR_SCHEMA, **codec.to_data(candidate)}
    for side in SIDES:
        without_code = {key: value for key, value in data[side].items() if key != "code"}
        data[side] = {"file": f"{side}{SUFFIXES[getattr(candidate, side).language]}", **without_code}
    return data


def write_candidate(folder: Path, candidate: Candidate, *, durable: bool = True) -> None:
    """Write both sides' code and then `pair.json`: a folder without it is not a pair."""
    data = candidate_data(candidate)
    check_schema("pair", data, where=str(folder / "pair.json"))
    for side in SIDES:
        write_bytes(folder / data[side]["file"], getattr(candidate, side).code.encode(), durable=durable)
    write_bytes(folder / "pair.json", pretty_json(data), durable=durable)


def read_candidate(folder: Path) -> Candidate:
    """Read a pair folder back.

    Raises:
        InputError: a file is missing or unreadable. RecordError: `pair.json` is invalid.
    """
    data = _load(path := folder / "pair.json")
    check_schema("pair", data, where=str(path))
    own_files.check_id(data["id"], path)
    plain = {key: value for key, value in data.items() if key != "schema"}
    for side in SIDES:
        code_path = folder / plain[side]["file"]
        if code_path.parent != folder:
            raise RecordError(f"{side}.file must be in the folder of pair.json", where=str(path))
        code = own_files.read(code_path).decode("utf-8", "replace")
        plain[side] = {"code": code, **{key: value for key, value in plain[side].items() if key != "file"}}
    return codec.from_data(Candidate, plain, where=str(path))


def read_kernel_code(folder: Path) -> str:
    """The code of an extracted kernel: `kernel.cu`, or `kernel.py` in Triton; `InputError` if unreadable."""
    path = folder / "kernel.py"
    return own_files.read(path if exists(path) else folder / "kernel.cu").decode("utf-8", "replace")


def find_candidates(root: Path) -> list[Path]:
    """Every pair folder at or below `root`, sorted; a file of a pair stands for its folder.

    Raises:
        InputError: `root` does not exist, or is a file that does not belong to a pair.
    """
    if not is_folder(root):
        if not root.exists() and not exists(root):
            raise InputError("no such file or folder", where=str(root), hint="check the path")
        if root.name not in _PAIR_FILES or not exists(root.parent / "pair.json"):
            raise InputError("not a file of a pair", where=str(root), hint="name the folder of a pair.json")
        return [root.parent]
    return [path.parent for path in find(root, "pair.json")]


# The fields of a record that are judged, and so part of a verdict's key; of other records all fields are.
JUDGED: Mapping[type[Any], tuple[str, ...]] = {
    Candidate: ("problem", "slow", "fast"),
    Problem: ("sizes", "buffers", "scalars", "records"),
    BenchSize: ("name", "sizes", "headline"),
}


def _judged(record: Any) -> Any:
    """A record with every field that is not judged set to its default."""
    defaults = type(record)(*(None for field in fields(record) if _required(field)))
    return replace(
        record,
        **{
            field.name: getattr(defaults, field.name)
            for field in fields(record)
            if field.name not in JUDGED[type(record)]
        },
    )


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _judged_problem(problem: Problem | None) -> Any:
    """The judged fields of a problem, as plain data."""
    if problem is None:
        return None
    bench = problem.sizes.bench
    if not isinstance(bench, Mapping):
        bench = tuple(map(_judged, bench))
    return codec.to_data(_judged(replace(problem, sizes=replace(problem.sizes, bench=bench))))


def candidate_key(candidate: Candidate, *, protocol: str) -> str:
    """The hash of everything that is judged (`JUDGED`) and of the protocol's version."""
    judged = {name: codec.to_data(getattr(candidate, name)) for name in JUDGED[Candidate]}
    judged["problem"] = _judged_problem(candidate.problem)
    return content_id(protocol, codec.canonical_json(judged))


def side_key(candidate: Candidate, side: SideName, *extra: str) -> str:
    """A hash of one side with its problem, equal in every pair that has both; `extra`: further parts."""
    data = [_judged_problem(candidate.problem), codec.to_data(getattr(candidate, side))]
    return content_id(*extra, json.dumps(data, sort_keys=True))


def bench_key(candidate: Candidate, side: SideName, *extra: str) -> str:
    """A hash of one side and of what its runs at the headline size depend on; `extra` as in `side_key`."""
    problem = candidate.problem
    if problem is not None:
        buffers = {
            name: replace(buffer, tolerance=None, promises=()) for name, buffer in problem.buffers.items()
        }
        problem = Problem(Sizes((), problem.sizes.headline), buffers, problem.scalars)
    return side_key(replace(candidate, problem=problem), side, *extra)


def verdict_path(folder: Path, device: str) -> Path:
    """The verdict file of a GPU model in a pair folder: `verdicts/<gpu-model>.json`."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in device.lower()).split())
    return folder / "verdicts" / f"{slug}.json"


def write_verdict(folder: Path, verdict: Verdict) -> None:
    """Write a verdict into its pair folder, one file per device model."""
    write_json(verdict_path(folder, verdict.environment.device), verdict)


def read_verdicts(folder: Path) -> tuple[Verdict, ...]:
    """All verdicts in a pair folder."""
    return tuple(read_json(path, Verdict) for path in find(folder / "verdicts", "*.json"))
