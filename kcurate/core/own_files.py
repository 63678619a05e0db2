"""Reads files of a workspace that may be somebody else's: within limits, and not through links that lead out.

Not covered: what the files hold (`kcurate.core.store`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kcurate.errors import InputError, RecordError

# No record is longer. What is longer is not read, and of lines of records, only the others are.
MAX_RECORD_BYTES = 1 << 26
# About a million verdicts; more take more memory than machines have.
MAX_LINES_BYTES = 1 << 32


def read(path: Path) -> bytes:
    """A file of a record, or of the code beside one.

    Raises:
        InputError: it cannot be read, or is no regular file. RecordError: it is too large, or a link out of
            its folder, so that its content could be something private.
    """
    try:
        # realpath, since resolve() raises RuntimeError for a link to itself
        if path.is_symlink() and os.path.realpath(path.parent) != str(Path(os.path.realpath(path)).parent):
            raise RecordError("a link out of its folder", where=str(path), hint="copy the file here")
        check_size(path)
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path), hint="check the path") from error


def check_size(path: Path, limit: int = MAX_RECORD_BYTES) -> None:
    """Whether a file may be read: it has an end (/dev/zero has none), and that is not too far.

    Raises:
        InputError: it is no regular file. RecordError: it is larger than `limit` bytes. OSError: it cannot be
            looked at.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError("not a regular file", where=str(path), hint="check the path")
    if found.st_size > limit:
        what = f"{found.st_size / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB that are read"
        raise RecordError(what, where=str(path), hint="move it out of the workspace")


def token(path: Path) -> str:
    """The token in a file, which a server and its callers share.

    Raises:
        InputError: it cannot be read, or has none.
    """
    hint = "such as openssl rand -hex 32 > FILE"
    try:
        check_size(path)
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII text"
        raise InputError(f"cannot read: {reason}", where=str(path), hint=hint) from error
    if not found or not found.isprintable() or " " in found:
        what = "not a token: one line of printable characters without spaces"
        raise InputError(what, where=str(path), hint=hint)
    return found


def not_below(name: str) -> str:
    """Why an id is no path below a folder, where what is made of the pair is written; empty: it is one."""
    if not name.isprintable() or "\\" in name or {"", ".", ".."} & set(name.split("/")):
        return "leads outside the workspace, or has characters that no id has"
    return ""


def check_id(name: str, where: Path) -> None:
    """Refuse an id that is no path below a folder.

    Raises:
        RecordError: it is none.
    """
    if why := not_below(name):
        raise RecordError(f"the id {name!r} {why}", where=str(where))
