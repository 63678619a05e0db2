"""The language features that a kernel uses, and the optimisation techniques visible in its text.

A technique is reported only where the text proves it. What takes a run or the author's intent to tell
(coalescing, kernel fusion, load balancing) is not detected here. The vocabulary is `schemas/techniques.json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from kcurate.cuda_source.text.blanking import blank_comments, blank_literals

# A pattern is tried only if one of its hint words occurs: finding a word is much cheaper.
_HINTS: Mapping[str, tuple[bytes, ...]] = {
    "atomics": (b"atomic",),
    "barrier": (b"sync",),
    "constant-memory": (b"__constant__",),
    "device-globals": (b"__device__",),
    "double-precision": (b"double",),
    "dynamic-shared-memory": (b"extern",),
    "half-precision": (b"half", b"bfloat16"),
    "inline-ptx": (b"asm",),
    "launch-bounds": (b"__launch_bounds__",),
    "shared-memory": (b"__shared__",),
    "templates": (b"template",),
    "texture": (b"tex",),
    "thread-fence": (b"__threadfence",),
    "warp-shuffle": (b"shfl",),
    "warp-vote": (b"__ballot", b"__any", b"__all", b"__match"),
    "async-copy": (b"async",),
    "cooperative-groups": (b"cooperative_groups",),
    "dpx": (b"__vi",),
    "fast-math-intrinsics": (b"__",),
    "loop-unrolling": (b"unroll",),
    "mixed-precision": (b"half", b"bfloat16"),
    "read-only-cache": (b"__ldg", b"ld.global"),
    "tensor-cores": (b"mma",),
    "tensor-maps": (b"tensor",),
    "texture-memory": (b"tex",),
    "thread-block-clusters": (b"cluster", b"mapa"),
    "vectorized-access": (b"2", b"4"),
    "warpgroup-mma": (b"wgmma",),
}
# These begin with what is quickly found, as `\b` is not.
_SHARED = re.compile(rb"__shared__(?<!\w__shared__)\b")
_FEATURES: Mapping[str, re.Pattern[bytes]] = {
    "atomics": re.compile(rb"atomic(?<!\watomic)(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)\w*\s*\("),
    "barrier": re.compile(rb"sync(?:(?<=__sync)(?<!\w__sync)threads\w*|(?<=\.sync))\s*\("),
    "constant-memory": re.compile(rb"\b__constant__\b"),
    "device-globals": re.compile(rb"^\s*(?:static\s+)?__device__\s+[^(;]*;", re.MULTILINE),
    "double-precision": re.compile(rb"\bdouble\b"),
    "dynamic-shared-memory": re.compile(rb"extern(?<!\wextern)\s+__shared__\b"),
    "half-precision": re.compile(rb"\b(?:__)?half2?\b|\b__nv_bfloat16\w*\b"),
    "inline-ptx": re.compile(rb"\basm\b"),
    "launch-bounds": re.compile(rb"\b__launch_bounds__\b"),
    "shared-memory": _SHARED,
    "templates": re.compile(rb"\btemplate\s*<"),
    "texture": re.compile(rb"\btex[123]D(?:fetch)?\s*\(|\btexture\s*<"),
    "thread-fence": re.compile(rb"\b__threadfence\w*\s*\("),
    "warp-shuffle": re.compile(rb"\b__shfl\w*\s*\(|\.shfl\w*\s*\("),
    "warp-vote": re.compile(rb"\b__(?:ballot|any|all|match)\w*\s*\("),
}
_TECHNIQUES: Mapping[str, re.Pattern[bytes]] = {
    "async-copy": re.compile(rb"\b__pipeline_memcpy_async\b|\bmemcpy_async\b|\bcp\.async\b"),
    "constant-memory": _FEATURES["constant-memory"],
    "cooperative-groups": re.compile(rb"\bcooperative_groups\b"),
    "dpx": re.compile(rb"\b__vi(?:add|bm|max|min)\w*\s*\("),
    "fast-math-intrinsics": re.compile(
        rb"__(?<!\w__)(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|sincosf|fdividef|frcp_r\w|fsqrt_r\w|mul24|umul24)\s*\("
    ),
    "launch-bounds": _FEATURES["launch-bounds"],
    "loop-unrolling": re.compile(rb"#\s*pragma\s+unroll\b|\b_Pragma\s*\(\s*\"\s*unroll"),
    "mixed-precision": re.compile(rb"\b(?:__)?half2?\b|\b__nv_bfloat16\w*\b"),
    "read-only-cache": re.compile(rb"\b__ldg\s*\(|\bld\.global\.nc\b"),
    "tensor-cores": re.compile(rb"\bwmma\s*::|\bmma_sync\s*\(|\bmma\.sync\b|\bwgmma\b"),
    "tensor-maps": re.compile(rb"\bcp\.async\.bulk\.tensor\b|\bcp_async_bulk_tensor\b"),
    "texture-memory": _FEATURES["texture"],
    "thread-block-clusters": re.compile(rb"\bthis_cluster\b|\bcluster_group\b|\bbarrier\.cluster\b|\bmapa\b"),
    "vectorized-access": re.compile(
        rb"[24](?:(?<=\bfloat.)|(?<=\bint.)|(?<=\buint.)|(?<=\bdouble.)|(?<=\buchar.)|(?<=\bchar.)|(?<=\bshort.)"
        rb"|(?<=\bushort.))\s*(?:const\s*)?\*"
    ),
    "warp-shuffle": _FEATURES["warp-shuffle"],
    "warp-vote": _FEATURES["warp-vote"],
    "warpgroup-mma": re.compile(rb"\bwgmma\b"),
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
    """The code without literals and comments, and without variables that are called as a type is."""
    bare = blank_literals(code)
    return _HALF.sub(b"", bare) if b"half" in bare and _HALF_VARIABLE.search(bare) else bare


def _shared_declarations(bare: bytes) -> list[bytes]:
    """The text after each `__shared__`, up to the end of the statement."""
    return [
        bare[match.end() : match.end() + _STATEMENT_BYTES].partition(b";")[0]
        for match in _SHARED.finditer(bare)
    ]


def _shown(patterns: Mapping[str, re.Pattern[bytes]], bare: bytes) -> set[str]:
    return {
        name
        for name, pattern in patterns.items()
        if any(map(bare.__contains__, _HINTS[name])) and pattern.search(bare)
    }
