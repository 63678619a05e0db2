"""CUDA source as bytes, to spans and self-contained files. The only package that imports tree-sitter.

Spans are half-open byte ranges of the original files. Nothing here reads a file or runs code.

| where | what |
|---|---|
| `text/` | bytes before parsing: comments, literals, brackets; the form in which code is published |
| `preprocess/` | includes, conditions, macros |
| `parse/` | the syntax tree, and the declarations of a unit |
| `launches/` | what host code says about kernels: launches, arguments, template arguments |
| `semantics/` | what names, expressions and pointers mean |
| `standalone/` | the self-contained file of a kernel, from its translation unit |
| `rewrite/` | code rewritten by byte spans |
| `compare/` | the similarity of two pieces of code |
"""

from kcurate.cuda_source.launches.second_reading import AGREED, Finding, Reading, Seen
from kcurate.cuda_source.parse.items import Item, Parsed, parse
from kcurate.cuda_source.parse.parameters import kernel_signatures
from kcurate.cuda_source.preprocess.macros import global_macros
from kcurate.cuda_source.preprocess.splicing import local_includes
from kcurate.cuda_source.standalone.unit import (
    KernelSource,
    Mark,
    UnitReport,
    extract_unit,
    marks_in,
    whole_file,
)
from kcurate.cuda_source.text.blanking import bare_file, blank_comments, blank_literals
from kcurate.cuda_source.text.features import features, techniques
from kcurate.cuda_source.text.normalise import normalise, normalised_tokens

__all__ = [
    "AGREED", "Finding", "Item", "KernelSource", "Mark", "Parsed", "Reading", "Seen", "UnitReport",
    "bare_file", "blank_comments", "blank_literals", "extract_unit", "features", "global_macros",
    "kernel_signatures", "local_includes", "marks_in", "normalise", "normalised_tokens", "parse",
    "techniques", "whole_file",
]  # fmt: skip
