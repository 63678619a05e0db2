"""Drafts problems for undescribed kernels: inferred from the code, tried on the emulator, with open places
where the code does not tell.

| module | owns |
|---|---|
| `cexpr`, `algebra` | C expressions as trees; integer expressions as sums of products |
| `tree`, `host`, `spelled` | host code: its files, functions, definitions; what its text alone tells |
| `meaning`, `memory` | the values of host names; host allocations and their sizes |
| `types`, `symbols` | C types as problem dtypes; `__constant__` variables without an initial value |
| `usage`, `bounds` | the kernel's text: what it reads and writes, and how far its indices go |
| `infer`, `building`, `configuring`, `launching`, `contents` | the draft: buffers, grid, plan, contents |
| `sketch` | a draft as data, with a remark on everything guessed or open |
| `sizes` | the size settings that a draft is tried on |
| `form`, `reading` | the file that the user completes in an editor |
| `admit`, `stage` | trying a draft on the emulator; drafting many kernels, with counts |
| `pairing`, `counterpart` | one problem for both sides of a pair, from the admitted problem of one |

Not covered: judging (`kcurate.judge`), the problems shipped with suites (`kcurate.suites.problems`).
"""
