"""Sides in Triton: compiled to a cubin for a GPU (`compiler`), interpreted on a CPU (`interpreter`).

| module | what |
|---|---|
| `compiler` | Triton modules compiled to PTX for one architecture, without a GPU |
| `installed` | whether Triton is installed, and its import in the processes that fork workers |
| `interpreter` | Triton modules run by Triton's interpreter on host memory |
| `module` | executes the text of a Triton module |

A side is hostile Python that `compiler` and `interpreter` execute, so only sandboxed workers import these
two. No other package imports `triton`. Not covered: what a module may contain (`kcurate.triton_source`).
"""
