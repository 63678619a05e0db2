"""Changes to a side: mistakes to test the judge with, and parts that a slow side may not need.

| module | what |
|---|---|
| `ablations` | parts of a side that might be needless, and the side without each of them |
| `broken` | mistakes of a writer that no test size is needed to see |
| `guards` | spans of a code that do not run, or run as something else, all in one text |
| `replacements` | earlier values in the place of later ones |
| `rounds` | loops with fewer rounds, and threads that all take one way |
| `choosing` | samples from several rewrites' offers |
| `spans` | device code as tokens with positions, for textual changes |
| `wrong` | mistakes that people and models make in kernels, one at a time |
| `numbers_in_scope` | the numeric parameters and variables of a function |
| `plan_ablations` | plans without one of their parts that might be needless |
"""
