"""Replaces the user's kernel in its file by the faster one, or says why the file needs more than that.

Only the kernel's own definition may differ: a new launch or new helpers are for a person to write. Not
covered: whether the kernel is faster (`kcurate.judge`).
"""

from __future__ import annotations

import difflib
import re

from kcurate.core import store
from kcurate.cuda_source import Item, normalised_tokens, parse
from kcurate.cuda_source.parse.parameters import header_of, params_of
from kcurate.draft.for_pairs.other_kernel import launches_of, shown_launch
from kcurate.errors import InputError
from kcurate.own.kernels import UserKernel
from kcurate.records import Side

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|else|elif|endif)\b", re.MULTILINE)


def patched(user_kernel: UserKernel, start: Side, faster: Side) -> bytes | str:
    """The user's file with the kernel of the `faster` side; or why it needs more changes.

    `start` is the side that was extracted from the file.
    """
    kernel, span = user_kernel.kernel, user_kernel.kernel.span
    old, new = _kernel(start.code, kernel.name), _kernel(faster.code, kernel.name)
    if kernel.shims:
        return f"extract repaired the kernel ({', '.join(kernel.shims)}), so it is not the code of the file"
    if kernel.root.startswith(f"{span.path}/"):
        return "the kernel is in a string or a cell, which may spell it differently"
    if _DIRECTIVE.search(user_kernel.data[span.start_byte : span.end_byte]):
        return "the kernel holds #if branches, of which only one was read"
    if old is None or new is None:
        return f"the faster side has no kernel {kernel.name}"
    if (why := _launched_differently(start, faster)) is not None:
        return why
    texts = start.code.encode(), faster.code.encode()
    if _around(texts[0], old) != _around(texts[1], new):
        return "it needs other helpers, includes or macros at file scope"
    if _interface(texts[0], old) != _interface(texts[1], new):
        return "its parameters have other types"
    text = texts[1][new.start : new.end]
    if b"\r\n" in user_kernel.data[span.start_byte : span.end_byte]:
        text = text.replace(b"\n", b"\r\n")
    return user_kernel.data[: span.start_byte] + text + user_kernel.data[span.end_byte :]


def _kernel(code: str, name: str) -> Item | None:
    kernels = [
        item for item in parse(code.encode()).items if item.kernel and item.names[-1:] == (name.encode(),)
    ]
    return kernels[0] if len(kernels) == 1 else None


def _launched_differently(start: Side, faster: Side) -> str | None:
    if faster.plan == start.plan:
        return None
    old, new = launches_of(start.plan), launches_of(faster.plan)
    if len(old) == len(new) == 1 and shown_launch(old[0]) != shown_launch(new[0]):
        return f"it is launched as <<<{shown_launch(new[0])}>>>, not as <<<{shown_launch(old[0])}>>>"
    return "it is launched differently (other arguments, steps or buffers)"


def _around(code: bytes, kernel: Item) -> tuple[bytes, ...]:
    """Everything but the kernel, as tokens."""
    return normalised_tokens(code[: kernel.start] + b" ; " + code[kernel.end :])


def _interface(code: bytes, kernel: Item) -> tuple[object, ...]:
    """What a launch depends on: the template's header and the parameters' types."""
    header = header_of(kernel, parse(code).text)
    template = normalised_tokens(header[: header.find(b"__global__")]) if kernel.template else ()
    return (template, *(param.type for param in params_of(header)))


def diff(old: bytes, new: bytes, name: str) -> str:
    """A unified diff of a file's text."""
    before, after = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (old, new))
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def write(kernel: UserKernel, new: bytes) -> None:
    """Replace the user's file, atomically and with its permissions.

    Raises:
        InputError: it changed since it was read, or cannot be written.
    """
    try:
        now, mode = kernel.path.read_bytes(), kernel.path.stat().st_mode
    except OSError as error:
        what = f"cannot read: {error.strerror}"
        raise InputError(what, where=str(kernel.path), hint="check the path") from error
    if now != kernel.data:
        raise InputError("changed since it was read", where=str(kernel.path), hint="run the command again")
    store.write_bytes(kernel.path, new)
    kernel.path.chmod(mode & 0o7777)
