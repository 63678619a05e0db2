"""Triton modules as text: what a side in Triton may contain, its kernels, and what a launch compiles it for.

Nothing here imports Triton or runs a module: the text is hostile. Not covered: compiling and interpreting
(`kcurate.backends`), plans (`kcurate.problem.triton_launch`).
"""

from kcurate.triton_source.allowed import Refusal, refusals
from kcurate.triton_source.specialised import Parameter, Specialised
from kcurate.triton_source.text import Kernel, bare_python, calls, kernels, parsed, respelled

__all__ = [
    "Kernel",
    "Parameter",
    "Refusal",
    "Specialised",
    "bare_python",
    "calls",
    "kernels",
    "parsed",
    "refusals",
    "respelled",
]
