"""`kcurate capture`: what a running CUDA program launches, on what, written down and described.

| where | what |
|---|---|
| `stage` | the command: run a program, write a record for each of its kernels |
| `running` | runs the program with a recorder in it |
| `building` | compiles the recorders on first use |
| `stubs` | what the stand-in for libcudart exports without implementing it |
| `emulated` | kernels as libraries that the stand-in runs |
| `raw` | reads what the recorders wrote |
| `recording` | from that to a record for each kernel |
| `describing` | what a buffer holds, and the generator that makes such values |
| `settings` | the settings of `kcurate capture` |

The recorders are native code in `native/`; `FORMAT.md` is what they write.
"""
