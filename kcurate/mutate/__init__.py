"""Changes to a side: mistakes to test the judge with, and parts that a slow side may not need.

| module | what |
|---|---|
| `ablations` | parts of a side that might be needless, and the side without each of them, one |
| `broken` | mistakes of a writer that no test size is needed to see |
| `choosing` | samples from several rewrites' offers |
| `spans` | device code as tokens with positions, for textual changes |
| `wrong` | mistakes that people and models make in kernels, one at a time |
| `numbers_in_scope` | the numbers that a function has as parameters and variables, and which of them a |
| `plan_ablations` | plans without one of their parts that might be needless |
"""
