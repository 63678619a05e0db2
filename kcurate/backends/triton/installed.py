"""Whether Triton is installed, and its import in the processes that fork workers; runs no candidate code.

Not covered: compiling and interpreting (`compiler`, `interpreter`).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
from pathlib import Path

from packaging.version import Version

from kcurate.backends.base import Compiled, CompileFailure
from kcurate.triton_source import refusals

# The backend of a `Compiled` whose binary is the text itself.
INTERPRETED = "triton"
MISSING = "the side is in Triton, and Triton 3.6 or newer is not installed (pip install 'kcurate[triton]')"
# Older versions start threads, which the sandbox refuses.
OLDEST = (3, 6)


def version() -> str | None:
    """The version of the installed Triton; None if it is missing or too old."""
    for name in ("triton", "pytorch-triton"):
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return installed if Version(installed).release >= OLDEST else None
    return None


def folder() -> Path:
    """The package's folder, which a sandboxed worker may read."""
    import triton

    return Path(triton.__file__).parent


def preload(backend: str) -> None:
    """Import what a sandboxed worker cannot import. Triton reads `TRITON_INTERPRET` only once, at import."""
    os.environ["TRITON_INTERPRET"] = "0" if backend == "cuda" else "1"
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    importlib.import_module(f"kcurate.backends.triton.{'compiler' if backend == 'cuda' else 'interpreter'}")


def for_interpreter(code: str) -> Compiled | CompileFailure:
    """The text in the form sent to a worker that interprets it; nothing is run."""
    installed = version()
    if installed is None:
        return CompileFailure("unsupported", MISSING)
    for refusal in refusals(code):
        return CompileFailure("error", f"{refusal.what} (line {refusal.line})")
    binary = code.encode()
    compiler = f"triton {installed} interpreter"
    return Compiled(INTERPRETED, binary, hashlib.sha256(binary).hexdigest(), {}, (), compiler)
