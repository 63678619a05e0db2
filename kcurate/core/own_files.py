"""Reads files of a workspace that may come from somebody else: within size limits, not through links outside.

Not covered: the content of the files (`kcurate.core.store`), those in shards (`kcurate.core.packs`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kcurate.core import packs
from kcurate.errors import InputError, RecordError

# The longest record that is read; in a file of lines, longer lines are skipped.
MAX_RECORD_BYTES = 1 << 26
# About a million verdicts; more would not fit into memory.
MAX_LINES_BYTES = 1 << 32


def read(path: Path) -> bytes:
    """The content of a record file, or of a code file next to one.

    Raises:
        InputError: it cannot be read, or is not a regular file. RecordError: it is too large, or a link out
            of its folder, which could expose a private file.
    """
    try:
        # realpath, since resolve() raises RuntimeError for a link to itself
        if path.is_symlink() and os.path.realpath(path.parent) != str(Path(os.path.realpath(path)).parent):
            raise RecordError("a link out of its folder", where=str(path), hint="copy the file here")
        check_size(path)
        return path.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and (content := packs.read(path)) is not None:
            return content
        raise InputError(f"cannot read: {error.strerror}", where=str(path), hint="check the path") from error


def check_size(path: Path, limit: int = MAX_RECORD_BYTES) -> None:
    """Check that a file is a regular file (/dev/zero has no end) of at most `limit` bytes.

    Raises:
        InputError: it is not a regular file. RecordError: it is larger. OSError: it cannot be accessed.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError("not a regular file", where=str(path), hint="check the path")
    if status.st_size > limit:
        why = f"{status.st_size / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB that are read"
        raise RecordError(why, where=str(path), hint="move it out of the workspace")


def token(path: Path) -> str:
    """The token in a file, which a server and its callers share.

    Raises:
        InputError: it cannot be read, or has none.
    """
    hint = "such as openssl rand -hex 32 > FILE"
    try:
        check_size(path)
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII text"
        raise InputError(f"cannot read: {reason}", where=str(path), hint=hint) from error
    if not text or not text.isprintable() or " " in text:
        why = "not a token: one line of printable characters without spaces"
        raise InputError(why, where=str(path), hint=hint)
    return text


def not_below(name: str) -> str:
    """Why an id is not a relative path that stays inside a folder; empty if it is.

    Files of a pair are written to the path that its id names.
    """
    if not name.isprintable() or "\\" in name or {"", ".", ".."} & set(name.split("/")):
        return "leads outside the workspace, or has characters that no id has"
    return ""


def check_id(name: str, where: Path) -> None:
    """Refuse an id that is not a relative path that stays inside a folder.

    Raises:
        RecordError: it is not.
    """
    if why := not_below(name):
        raise RecordError(f"the id {name!r} {why}", where=str(where))
