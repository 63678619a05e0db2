"""Names by which code could tell the emulator's compiler from NVRTC (the check `sham`).

A slow side that was made is run on the emulator to see what it does, so it must do the same there as on a
GPU. Refused are macros that compilers define (other than CUDA's and the standard's), names of the emulator's
own, and `long double`, whose size differs. Not covered: other ways to notice the emulator (docs/judge.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source

# Words with two underscores at both ends that mean the same to both compilers (CUDA C++ Programming Guide,
# "C++ Language Extensions"; the C++ standard's predefined names).
_SHARED = frozenset({
    "__global__", "__device__", "__host__", "__shared__", "__constant__", "__managed__", "__grid_constant__",
    "__restrict__", "__forceinline__", "__noinline__", "__inline__", "__align__", "__launch_bounds__",
    "__maxnreg__", "__cluster_dims__", "__block_size__", "__nv_pure__", "__attribute__", "__volatile__",
    "__asm__", "__CUDA_ARCH__", "__LINE__", "__func__", "__FUNCTION__",
})  # fmt: skip
_MACRO = re.compile(r"__\w+__|__[A-Z]\w*|kcu_\w*|KCU_\w*")
_ALIKE = re.compile(r"__CUDA\w*|__NVCC\w*|__cplusplus|__(?:FLT|DBL|INT)_\w+__")


def compiler_names(source: Source) -> Iterator[Finding]:
    """Names that one of the two compilers alone defines, and `long double`."""
    for stream in source.streams:
        for at, token in enumerate(stream):
            if token.kind != "word":
                continue
            known = token.text in _SHARED or _ALIKE.fullmatch(token.text)
            if _MACRO.fullmatch(token.text) and not known:
                yield Finding("sham", f"{token.text} tells compilers apart", token.line)
            elif token.text == "double" and at and stream[at - 1].text == "long":
                yield Finding("sham", "the size of long double tells compilers apart", token.line)
