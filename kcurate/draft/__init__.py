"""Drafts problems for undescribed kernels: inferred from the code, tried on the emulator, with open places
where the code does not tell.

| module | owns |
|---|---|
| `algebra` | integer expressions as sums of products |
| `tree` | finds the host code of a kernel |
| `meaning`, `spelled`, `memory` | the values of host names, what code alone tells, allocations |
| `types` | C types as problem dtypes |
| `bounds` | how far the kernel's indices go |
| `infer`, `building`, `launching`, `contents` | the draft: buffers, grid, plan, contents |
| `structs`, `unfolded` | structs by value: their numbers; members of those with pointers as parameters |
| `sketch` | a draft as data, with a remark on everything guessed or open |
| `sizes` | the size settings that a draft is tried on |
| `form`, `reading` | the file that the user completes in an editor |
| `admit`, `settling`, `stage` | trying a draft on the emulator, writing it; many kernels, with counts |
| `pairing`, `counterpart` | one problem for both sides of a pair, from the admitted problem of one |
| `proposing` | asking a language model for what stays open |

Not covered: judging (`kcurate.judge`), the problems shipped with suites (`kcurate.suites.problems`).
"""
