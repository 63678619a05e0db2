"""Problems composed from a table of operators, with a plain side in CUDA and fast ones, into a workspace.

| module | owns |
|---|---|
| `stage` | `kcurate mint`: composing, admitting, writing, resuming |
| `settings` | its settings |
| `graph` | operators (`operators.toml`), nodes, graphs, the canonical hash |
| `axes` | axes bound to extents: the shape rule |
| `composer` | which graphs are made |
| `sizes` | settings for tests and for timing |
| `scalar_text` | the expressions of operators, as C++ |
| `naive` | the plain side: a kernel an operator |
| `problem` | a graph as a PyTorch module, and as buffers, inputs, tolerances |
| `statement` | a graph in words |
| `known_graphs` | graphs of KernelBench and of built-in families |
| `admission` | whether a graph becomes a problem, and the pairs of its fast sides |
| `rating` | `kcurate mint rate`: how often a model solves a problem |
| `schedules/` | fast sides from schedule templates |

Not covered: how a problem is judged (`kcurate.judge`).
"""
