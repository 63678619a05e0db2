"""Compiler logs as they may leave this machine: of other files only the place, of lines only the side's own.

For NVRTC, the emulator's compilers, ptxas and Triton alike. Not covered: what compilers may read at all
(`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import re

# Names under which a side's text and its plan are compiled.
OWN_FILES = frozenset({"kernel.cu", "plan", "side.ptx"})
# The emulator's headers, as its messages name them: anybody may read these.
_OUR_HEADERS = "kcurate/"
# People read the first errors.
MAX_LOG_CHARS = 4000
_HEAD = re.compile(
    r"(?P<file>[^\s:(][^:(\n]*?)(?:\((?P<line>\d+)\)|:(?P<row>\d+)(?::\d+)?): "
    r"(?:\w+ )?(?P<kind>error|warning|note)?"
)
_ERROR = re.compile(
    r"^(?:kernel\.cu(?:\((?P<line>\d+)\)|:(?P<row>\d+)(?::\d+)?)?:(?=.*?\berror\b)|"
    r"(?P<end>At end of source|plan)\b|(?P<header>[^\s:(][^:(\n]*)[(:]\d+|(?=error\b))"
    r".*?\berror\b(?:[^:\n]*:)? (?P<what>.+)$",
    re.MULTILINE,
)
# Where a side's own text led to an error in a header: a macro's use, an instance of a template.
_LED = re.compile(r"^kernel\.cu(?:\((\d+)\)|:(\d+)(?::\d+)?): |at line (\d+) of \"?kernel\.cu", re.MULTILINE)
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
        if head is None or inside_own or head["file"].startswith(_OUR_HEADERS):
            kept.append(line)
        else:
            kept.append(
                f"{head['file']}({head['line'] or head['row']}): {head['kind'] or 'error'} in a header"
            )
    text = "\n".join(kept)
    return text if len(text) <= MAX_LOG_CHARS else text[:MAX_LOG_CHARS] + "\n[...]"


def first_error(log: str, code: str) -> tuple[int | None, str] | None:
    """The line in a side's own text (None: no line is at fault) and the words of its first error, if any.

    That is the first one in its text, else one in a header that its text led to, else what misses its end,
    else one without a place.
    """
    errors = [*_ERROR.finditer(log)]
    for match in errors:
        if line := match["line"] or match["row"]:
            return int(line), match["what"].strip()
    for match in errors:
        if match["header"] and (led := _LED.search(log, match.end())):
            return int(next(filter(None, led.groups()))), match["what"].strip()
    # What follows an open brace is inside it, so that the last error is the one about it.
    for match in reversed(errors):
        open_brace = match["end"] and re.search("[\"']}[\"']", match["what"])
        return (len(code.rstrip().splitlines()) if open_brace else None), match["what"].strip()
    return None
