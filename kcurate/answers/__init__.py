"""`kcurate import`: published answers, as candidates against the modules that they answer.

| module | owns |
|---|---|
| `stage` | the command: rows to candidates, one outcome per row |
| `rows` | rows of the formats that exist |
| `worker` | the sandboxed process in which an answer runs |
| `recording` | runs an answer on CPU tensors and records what it would launch |
| `host_text` | CUDA source as recordable host code, and as device code |
| `building` | compiles the recordable host code |
| `plans` | recordings at several sizes become a plan |
| `settings` | the settings of `kcurate import` |

No GPU is needed: host code runs as it is, launches are recorded instead of run. `native/answer.h` stands in
for PyTorch's CUDA build. Not covered: whether an answer is right (`kcurate.judge`).
"""
