"""Changes to a side: mistakes to test the judge with, and parts that a slow side may not need.

| module | what |
|---|---|
| `ablations` | parts of a side that might be needless, and the side without each of them |
| `broken` | mistakes that show without running the code, such as a lost semicolon |
| `choosing` | changes to a text as changes to a side |
| `detours` | values that go through an array, and variables that hold the same |
| `formulas` | formulas of one operation that may give what a side computes in a longer way |
| `guards` | spans of a code that do not run, or run as something else, all in one text |
| `replacements` | computations replaced by a value that is already available |
| `rounds` | loops with fewer rounds, and threads that all take one way |
| `threads` | fewer threads: those that store nothing, idle lanes, lanes that repeat others |
| `tables` | tables that a side reads though each entry is a formula of its place |
| `spans` | device code as tokens with positions, for textual changes |
| `wrong` | mistakes that people and models make in kernels, one at a time |
| `numbers_in_scope` | the numeric parameters and variables of a function |
| `plan_ablations` | plans without one part that might be needless |
"""
