"""One's own kernels: text or files in; a verdict, a pair, or a faster kernel, out. Several stages each.

| module | owns |
|---|---|
| `kernels` | `FILE.cu[:KERNEL]` on the command line to an extracted kernel |
| `launches` | how a kernel is launched: as the user wrote it, else guessed |
| `problems` | an admitted problem for one of the kernels: found, drafted, asked for |
| `pair` | two kernels to a candidate |
| `judging` | `kcurate.judge` and `kcurate.Judge`: two kernels and example calls to a verdict |
| `example_calls` | arrays and numbers of Python as recorded launches |
| `example_sides` | one side with its calls: its draft, and its launch as it was given |
| `launch_expressions` | grids, blocks and shared memory of Python as expressions |
| `optimize` | a kernel to a faster one, written by a model and judged |
| `patch` | the faster kernel in place of the user's |
| `settings` | the settings of `kcurate pair` and `kcurate optimize` |

Not covered: the stages themselves (`kcurate.extract`, `kcurate.draft`, `kcurate.deopt`).
"""
