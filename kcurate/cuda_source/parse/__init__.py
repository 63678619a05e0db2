"""The syntax tree of a unit, and what it declares.

| module | owns |
|---|---|
| `syntax_tree` | queries on trees, and byte-span edits |
| `items` | the parse: declarations, their names, the names that they use |
| `parameters` | the parameters of kernels |
"""
