"""Triton modules as text: what a side in Triton may contain, its kernels, and what a launch compiles it for.

Nothing here imports Triton or runs a module: the text is hostile. Not covered: compiling and interpreting
(`kcurate.backends`), plans (`kcurate.problem.triton_launch`).

| module | owns |
|---|---|
| `allowed` | the allow-list: what a module may contain |
| `module_text` | a module's syntax tree, its functions and their parameters |
| `specialised` | what one launch compiles a function for |
| `accesses` | loads, stores and atomics behind each parameter |
| `module_names` | what names at the top level stand for, through imports |
| `configurations` | what `@triton.autotune` and `@triton.heuristics` list |
| `extracting` | functions cut out of Python files |
"""

from kcurate.triton_source.allowed import Refusal, refusals
from kcurate.triton_source.module_text import Kernel, bare_python, calls, kernels, parsed, respelled
from kcurate.triton_source.specialised import Parameter, Specialised

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
