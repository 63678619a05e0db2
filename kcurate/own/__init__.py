"""One's own kernels: files in; a pair, or a faster kernel, out. Each command runs several stages.

| module | owns |
|---|---|
| `kernels` | `FILE.cu[:KERNEL]` on the command line to an extracted kernel |
| `launches` | how a kernel is launched: as the user wrote it, else guessed |
| `problems` | an admitted problem for one of the kernels: found, drafted, asked for |
| `pair` | two kernels to a candidate |
| `optimize` | a kernel to a faster one, written by a model and judged |
| `patch` | the faster kernel in place of the user's |
| `settings` | the settings of `kcurate pair` and `kcurate optimize` |

Not covered: the stages themselves (`kcurate.extract`, `kcurate.draft`, `kcurate.deopt`).
"""
