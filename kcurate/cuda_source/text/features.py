"""The language features that a kernel uses, and the optimisation techniques visible in its text.

A technique is reported only if the text proves it. Techniques that only a run or the author's intent shows
(coalescing, kernel fusion, load balancing) are not detected. The vocabulary is `schemas/techniques.json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from kcurate.cuda_source.text.blanking import blank_comments, blank_literals


class _Pattern(NamedTuple):
    """A pattern that shows a feature; tried only if one of its words occurs, since words are found faster."""

    words: tuple[bytes, ...]
    pattern: re.Pattern[bytes]

    def search(self, bare: bytes) -> bool:
        return any(map(bare.__contains__, self.words)) and self.pattern.search(bare) is not None


def _shown_by(words: bytes, pattern: bytes, flags: int = 0) -> _Pattern:
    return _Pattern(tuple(words.split()), re.compile(pattern, flags))


# Some begin with what is quickly found, as `\b` is not.
_FEATURES: Mapping[str, _Pattern] = {
    "atomics": _shown_by(
        b"atomic", rb"atomic(?<!\watomic)(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)\w*\s*\("
    ),
    "barrier": _shown_by(b"sync", rb"sync(?:(?<=__sync)(?<!\w__sync)threads\w*|(?<=\.sync))\s*\("),
    "constant-memory": _shown_by(b"__constant__", rb"\b__constant__\b"),
    "device-globals": _shown_by(b"__device__", rb"^\s*(?:static\s+)?__device__\s+[^(;]*;", re.MULTILINE),
    "double-precision": _shown_by(b"double", rb"\bdouble\b"),
    "dynamic-shared-memory": _shown_by(b"extern", rb"extern(?<!\wextern)\s+__shared__\b"),
    "half-precision": _shown_by(b"half bfloat16", rb"\b(?:__)?half2?\b|\b__nv_bfloat16\w*\b"),
    "inline-ptx": _shown_by(b"asm", rb"\basm\b"),
    "launch-bounds": _shown_by(b"__launch_bounds__", rb"\b__launch_bounds__\b"),
    "shared-memory": _shown_by(b"__shared__", rb"__shared__(?<!\w__shared__)\b"),
    "templates": _shown_by(b"template", rb"\btemplate\s*<"),
    "texture": _shown_by(b"tex", rb"\btex[123]D(?:fetch)?\s*\(|\btexture\s*<"),
    "thread-fence": _shown_by(b"__threadfence", rb"\b__threadfence\w*\s*\("),
    "warp-shuffle": _shown_by(b"shfl", rb"\b__shfl\w*\s*\(|\.shfl\w*\s*\("),
    "warp-vote": _shown_by(b"__ballot __any __all __match", rb"\b__(?:ballot|any|all|match)\w*\s*\("),
}
_TECHNIQUES: Mapping[str, _Pattern] = {
    "async-copy": _shown_by(b"async", rb"\b__pipeline_memcpy_async\b|\bmemcpy_async\b|\bcp\.async\b"),
    "constant-memory": _FEATURES["constant-memory"],
    "cooperative-groups": _shown_by(b"cooperative_groups", rb"\bcooperative_groups\b"),
    "dpx": _shown_by(b"__vi", rb"\b__vi(?:add|bm|max|min)\w*\s*\("),
    "fast-math-intrinsics": _shown_by(
        b"__",
        rb"__(?<!\w__)(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|sincosf|fdividef|frcp_r\w|fsqrt_r\w|mul24|umul24)\s*\(",
    ),
    "launch-bounds": _FEATURES["launch-bounds"],
    "loop-unrolling": _shown_by(b"unroll", rb"#\s*pragma\s+unroll\b|\b_Pragma\s*\(\s*\"\s*unroll"),
    "mixed-precision": _FEATURES["half-precision"],
    "read-only-cache": _shown_by(b"__ldg ld.global", rb"\b__ldg\s*\(|\bld\.global\.nc\b"),
    "tensor-cores": _shown_by(b"mma", rb"\bwmma\s*::|\bmma_sync\s*\(|\bmma\.sync\b|\bwgmma\b"),
    "tensor-maps": _shown_by(b"tensor", rb"\bcp\.async\.bulk\.tensor\b|\bcp_async_bulk_tensor\b"),
    "texture-memory": _FEATURES["texture"],
    "thread-block-clusters": _shown_by(
        b"cluster mapa", rb"\bthis_cluster\b|\bcluster_group\b|\bbarrier\.cluster\b|\bmapa\b"
    ),
    "vectorized-access": _shown_by(
        b"2 4",
        rb"[24](?:(?<=\bfloat.)|(?<=\bint.)|(?<=\buint.)|(?<=\bdouble.)|(?<=\buchar.)|(?<=\bchar.)|(?<=\bshort.)"
        rb"|(?<=\bushort.))\s*(?:const\s*)?\*",
    ),
    "warp-shuffle": _FEATURES["warp-shuffle"],
    "warp-vote": _FEATURES["warp-vote"],
    "warpgroup-mma": _shown_by(b"wgmma", rb"\bwgmma\b"),
}
# Those that are PTX as often as C++: literals are read for them too.
_IN_ASM = {
    name: _TECHNIQUES[name]
    for name in (
        *("async-copy", "read-only-cache", "tensor-cores"),
        *("tensor-maps", "thread-block-clusters", "warpgroup-mma"),
    )
}
_GRID_STRIDE = re.compile(
    rb"\+=\s*[^;)]*\bgridDim\s*\.\s*[xyz]|\+=\s*(?:stride|step|grid_?[sS]ize|num_?[tT]hreads)\b"
)
_SHARED_ATOMIC = re.compile(rb"atomic(?<!\watomic)\w+\s*\(\s*&?\s*(\w+)")
_DECLARED_NAME = re.compile(rb"\s*(?:volatile\s+)?[\w:<>,\s]{1,200}?\s\**(\w+)\s*(?:\[|;|,|\Z)")
_PADDED = re.compile(rb"\[[^\[\]]*\+\s*1\s*\]")
_HALF = re.compile(rb"\bhalf\b")
# A half of something, declared or assigned to: no file can use the type then.
_HALF_VARIABLE = re.compile(
    rb"\b(?:int|unsigned|long|short|char|bool|auto|float|double|\w+_t)\s+half\b|\bhalf\s*(?:<<|>>|[-+*/%&|^])?=(?!=)"
)
# Only so many bytes of a `__shared__` declaration are examined, to bound the time on hostile input.
_STATEMENT_BYTES = 1000


def features(code: bytes) -> tuple[str, ...]:
    """Language features in the code, sorted."""
    return tuple(sorted(_shown(_FEATURES, _bare(code))))


def techniques(code: bytes) -> tuple[str, ...]:
    """Optimisation techniques visible in the code, sorted; names from `schemas/techniques.json`."""
    bare = _bare(code)
    techniques_shown = _shown(_TECHNIQUES, bare)
    if b"asm" in code:
        techniques_shown |= _shown(_IN_ASM, blank_comments(code))
    if b"unroll" in code and _TECHNIQUES["loop-unrolling"].search(code):
        techniques_shown.add("loop-unrolling")
    declarations = _shared_declarations(bare)
    shared = {match[1] for text in declarations if (match := _DECLARED_NAME.match(text))}
    if any(_PADDED.search(text) for text in declarations):
        techniques_shown.add("bank-conflict-padding")
    if shared and _FEATURES["barrier"].search(bare):
        techniques_shown.add("shared-memory-tiling")
    if shared & set(_SHARED_ATOMIC.findall(bare)):
        techniques_shown.add("privatization")
    if b"gridDim" in bare and _GRID_STRIDE.search(bare):
        techniques_shown.add("grid-stride-loop")
    return tuple(sorted(techniques_shown))


@lru_cache(maxsize=1)  # features, then techniques
def _bare(code: bytes) -> bytes:
    """The code without literals, comments, and variables that are called the same as a type."""
    bare = blank_literals(code)
    return _HALF.sub(b"", bare) if b"half" in bare and _HALF_VARIABLE.search(bare) else bare


def _shared_declarations(bare: bytes) -> list[bytes]:
    """The text after each `__shared__`, up to the end of the statement."""
    return [
        bare[match.end() : match.end() + _STATEMENT_BYTES].partition(b";")[0]
        for match in _FEATURES["shared-memory"].pattern.finditer(bare)
    ]


def _shown(patterns: Mapping[str, _Pattern], bare: bytes) -> set[str]:
    return {name for name, shown in patterns.items() if shown.search(bare)}
