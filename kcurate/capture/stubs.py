"""What the stand-in for libcudart must export besides what it implements, from CUDA's headers.

Every other function of the runtime API answers `cudaErrorNotSupported`; with a default stream for each
thread, programs call some under other names. Not covered: compiling it (`building`).
"""

from __future__ import annotations

import re

_DECLARED = re.compile(r"CUDARTAPI\s+(cuda\w+)\s*\(")
_IMPLEMENTED = re.compile(r"\b(_*cuda\w+)\s*\(|\bSUCCEEDS\((\w+)")
_PER_THREAD = re.compile(r"#define\s+(\w+)\s+__CUDART_API_(PTDS|PTSZ)\(\1\)")
_VERSION = re.compile(r"#define\s+CUDART_VERSION\s+(\d+)")
# Not in the list of those for which programs use another name, though a compiled launch does.
LAUNCH = ("__cudaLaunchKernel", "PTSZ")


def stubs(header: str, source: str) -> str:
    """The text of `stubs.inc` for a stand-in with this source, from `cuda_runtime_api.h`."""
    implemented = {name or other for name, other in _IMPLEMENTED.findall(source)}
    lines = [f"MISSING({name})" for name in sorted(set(_DECLARED.findall(header)) - implemented)]
    for name, kind in sorted({*_PER_THREAD.findall(header), LAUNCH}):
        macro = "ALIAS" if name in implemented else "MISSING_AS"
        lines.append(f"{macro}({name}, {name}_{kind.lower()})")
    return "\n".join(lines) + "\n"


def major(header: str) -> int | None:
    """The runtime's major version, part of its library's name; None if the header does not tell."""
    version = _VERSION.search(header)
    return int(version[1]) // 1000 if version else None


def version_script(number: int) -> str:
    """The linker's version script: symbols carry the library's name, as in the real one."""
    return f"libcudart.so.{number} {{ global: cuda*; __cuda*; local: *; }};\n"
