"""Problems composed from a table of operators, with plain device code, into a workspace.

| module | owns |
|---|---|
| `graph` | operators, nodes, graphs, the canonical hash |
| `operators/` | the table of operators |
| `scalar_text` | the expressions of operators, as C++ |
"""
