"""`kcurate capture`: records what a running CUDA program launches, and describes the data.

| where | what |
|---|---|
| `stage` | the command: run a program, write a record for each of its kernels |
| `running` | runs the program with a recorder in it |
| `building` | compiles the recorders on first use |
| `emulated` | kernels as libraries that the stand-in runs |
| `raw` | reads what the recorders wrote |
| `recording` | turns it into a record for each kernel |
| `describing` | facts about the contents of a buffer, and a generator for such values |
| `settings` | the settings of `kcurate capture` |

The recorders are native code in `native/`; `FORMAT.md` describes what they write.
"""
