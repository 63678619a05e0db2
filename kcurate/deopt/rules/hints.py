"""Rules that remove hints to the compiler: no statement changes.

Why each is safe (CUDA C++ Programming Guide 13.0):

- unroll: the pragma affects speed only ("#pragma unroll").
- launch-bounds: they only limit registers. Without them, 255 registers for each of 256 threads still fit in
  the 65536 of a block ("Technical Specifications"), so it applies only to blocks known to be that small.

Not covered: manual unrolling; `__restrict__` and `__ldg`, whose removal hardly ever costs time (0 of 129 and
2 of 38 slow sides confirmed on an H200, November 2026).
"""

from __future__ import annotations

import re

from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import block_threads, launches
from kcurate.records import Side

UNROLL = re.compile(rb"#\s*pragma\s+(?:GCC\s+)?unroll\s*(?P<count>.*?)\s*\Z", re.DOTALL)
# `#pragma unroll 1` forbids unrolling: removing it would make the code faster.
FORBIDS_UNROLLING = re.compile(rb"\(?\s*[01]\s*\)?\Z")
# 255 registers per thread times 256 threads fit in the 65536 of a block.
ALWAYS_FITS = 256


def drop_unroll(subject: Subject) -> Side | NotApplicable:
    """Remove `#pragma unroll`: loops are then unrolled only where the compiler chooses to."""
    edits = []
    for node in subject.tree.nodes("preproc_call"):
        pragma = UNROLL.match(subject.tree.text(node).strip())
        if pragma and not FORBIDS_UNROLLING.match(pragma["count"]):
            edits.append(Edit(*_whole_line(subject.tree.source, node.start_byte)))
    return subject.with_edits(edits, "no #pragma unroll that requests unrolling")


def drop_launch_bounds(subject: Subject) -> Side | NotApplicable:
    """Remove `__launch_bounds__` from kernels that only run in blocks of at most 256 threads."""
    edits, reason = [], "no __launch_bounds__"
    for function in subject.tree.functions():
        bounds = [child for child in function.node.children if child.type == "launch_bounds"]
        if not bounds:
            continue
        threads = [block_threads(launch) for launch in launches(subject.side, function.name)]
        if threads and all(count is not None and count <= ALWAYS_FITS for count in threads):
            start, end = bounds[0].start_byte, bounds[0].end_byte
            edits.append(Edit(*_with_space_after(subject.tree.source, start, end)))
        else:
            reason = f"blocks of more than {ALWAYS_FITS} threads may not fit without __launch_bounds__"
    return subject.with_edits(edits, reason)


def _with_space_after(code: bytes, start: int, end: int) -> tuple[int, int]:
    """The span including trailing blanks, unless they separate two words."""
    after = end
    while code[after : after + 1] in (b" ", b"\t"):
        after += 1
    glued = re.search(rb"\w\Z", code[:start]) and re.match(rb"\w", code[after:])
    return (start, end) if glued else (start, after)


def _whole_line(code: bytes, start: int) -> tuple[int, int]:
    """The span of the whole line that a directive starts on."""
    end = code.find(b"\n", start) + 1
    return code.rfind(b"\n", 0, start) + 1, end or len(code)


RULES: tuple[Rule, ...] = (
    Rule("launch-bounds", "launch-bounds", "launch bounds", drop_launch_bounds),
    Rule("unroll", "loop-unrolling", "unroll pragmas", drop_unroll),
)
