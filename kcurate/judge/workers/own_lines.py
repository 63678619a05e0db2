"""Compiler logs as they may leave this machine: of other files only the place, of lines only the side's own.

For NVRTC, the emulator's compilers, ptxas and Triton alike. Not covered: what compilers may read at all
(`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import re

# Names under which a side's text and its plan are compiled.
OWN_FILES = frozenset({"kernel.cu", "plan", "side.ptx"})
# People read the first errors.
MAX_LOG_CHARS = 4000
_HEAD = re.compile(
    r"(?P<file>[^\s:(][^:(\n]*?)(?:\((?P<line>\d+)\)|:(?P<row>\d+)(?::\d+)?): "
    r"(?:\w+ )?(?P<kind>error|warning|note)?"
)
_ERROR = re.compile(
    r"^kernel\.cu(?:\((?P<line>\d+)\)|:(?P<row>\d+)(?::\d+)?):.*?\berror\b[^:]*: (?P<what>.+)$", re.MULTILINE
)
_MARK = re.compile(r"\s*(?:\d+)? ?\|?[\s^~|]*")
_NUMBERED = re.compile(r"\s*\d+ \| ?")
_CONTEXT = re.compile(r"\s+(?:detected during|instantiation of|implicit generation|\[ \d+ instantiation)")
_REQUIRED = re.compile(r"at line (\d+) of \"?kernel\.cu")
_PATH = re.compile(r"(?<![\w.])/(?:[^\s/:()\"']+/)+")


def own_lines(log: str, code: str) -> str:
    """A log without the text of other files, and without paths of this machine: its first `MAX_LOG_CHARS`."""
    own = {line.strip() for line in code.splitlines()}
    kept: list[str] = []
    inside_own = True
    for line in _PATH.sub("", log).splitlines():
        if line[:1].isspace():
            text = _NUMBERED.sub("", line).strip()
            if inside_own and (text in own or _MARK.fullmatch(line) or _CONTEXT.match(line)):
                kept.append(line)
            elif required := _REQUIRED.search(line):
                kept.append(f"    required at line {required[1]} of kernel.cu")
            continue
        head = _HEAD.match(line)
        inside_own = head is None or head["file"] in OWN_FILES
        if head is None or inside_own:
            kept.append(line)
        else:
            kept.append(
                f"{head['file']}({head['line'] or head['row']}): {head['kind'] or 'error'} in a header"
            )
    text = "\n".join(kept)
    return text if len(text) <= MAX_LOG_CHARS else text[:MAX_LOG_CHARS] + "\n[...]"


def first_error(log: str) -> tuple[int, str] | None:
    """The line and the words of the first error in a side's own text; None: there is none."""
    match = _ERROR.search(log)
    return (int(match["line"] or match["row"]), match["what"].strip()) if match else None
