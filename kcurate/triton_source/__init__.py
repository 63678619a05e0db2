"""Triton modules as text: what a side in Triton may contain, its kernels, and their specialisations.

Nothing here imports Triton or runs a module: the text is untrusted. Not covered: compiling and interpreting
(`kcurate.backends`), plans (`kcurate.problem.triton_launch`).

| module | owns |
|---|---|
| `allowed` | the allow-list: what a module may contain |
| `module_text` | a module's syntax tree, its functions and their parameters |
| `specialised` | the specialisation of a function for one launch |
| `accesses` | loads, stores and atomics through each parameter |
| `module_names` | resolves top-level names through imports |
| `configurations` | the configurations of `@triton.autotune` and `@triton.heuristics` |
| `library_functions` | functions of Inductor and libdevice, rewritten |
| `extracting` | cuts functions out of Python files |
"""

from kcurate.triton_source.allowed import Refusal, refusals
from kcurate.triton_source.module_text import Kernel, bare_python, calls, kernels, parsed, respelled
from kcurate.triton_source.specialised import Parameter, Specialised

__all__ = [
    "Kernel", "Parameter", "Refusal", "Specialised", "bare_python", "calls", "kernels", "parsed", "refusals",
    "respelled",
]  # fmt: skip
