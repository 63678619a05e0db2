"""The syntax tree of a unit, and what it declares.

| module | owns |
|---|---|
| `syntax_tree` | trees and queries on them; the only module that imports tree-sitter |
| `items` | the parse: declarations, their names, the names that they use |
| `parameters` | the parameters of kernels |
"""
