"""CUDA source: bytes in, spans and self-contained files out. The only importer of tree-sitter.

Spans are half-open byte ranges of the original files. Nothing here reads a file or runs code.

| module | owns |
|---|---|
| `text` | blanks comments and whatever the grammar rejects, at equal length |
| `conditions`, `expansion` | `#if` evaluation, with macros expanded |
| `preprocess` | splicing local includes, and the map back to the files |
| `macros` | macro calls and attributes that hide a kernel, macros that expand to `__global__`, `push_macro` |
| `items` | the parse: declarations, their names, the names they use |
| `closure`, `shim`, `repairs`, `library` | a kernel's whole file: shims, annotations, headers |
| `host_methods` | methods of classes that only the host may call |
| `instantiations`, `template_heads`, `host_names`, `macro_calls` | template arguments of launches |
| `launches`, `launch_calls` | launch sites and argument roles; launches not written with `<<<` |
| `params`, `features`, `brackets` | parameters; techniques |
| `scopes` | which kernels a launch refers to |
| `unit` | all of the above for one translation unit |
| `normalise` | code as it is published and compared |
| `statements`, `declarations`, `paths` | code to be understood: functions, calls, what sets a name |
| `expressions`, `usage` | C expressions as trees of our own; what a kernel reads and writes |
| `edit`, `wider` | rewriting by byte spans; `float` accumulators as `double` |
"""

from kcurate.cuda_source.features import features, techniques
from kcurate.cuda_source.items import Item, Parsed, parse
from kcurate.cuda_source.macros import global_macros
from kcurate.cuda_source.normalise import normalise, normalised_tokens
from kcurate.cuda_source.params import kernel_signatures
from kcurate.cuda_source.preprocess import local_includes
from kcurate.cuda_source.text import blank_comments, blank_literals
from kcurate.cuda_source.unit import KernelSource, UnitReport, extract_unit, whole_file

__all__ = [
    "Item",
    "KernelSource",
    "Parsed",
    "UnitReport",
    "blank_comments",
    "blank_literals",
    "extract_unit",
    "features",
    "global_macros",
    "kernel_signatures",
    "local_includes",
    "normalise",
    "normalised_tokens",
    "parse",
    "techniques",
    "whole_file",
]
