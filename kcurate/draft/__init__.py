"""Draft problems for kernels that nobody described: read off the code, tried on the emulator, open where
nothing tells.

| module | owns |
|---|---|
| `cexpr`, `algebra` | C expressions as trees; whole-number expressions as sums of products |
| `tree`, `host`, `spelled` | host code: its files, functions, definitions; what its spelling alone says |
| `meaning`, `memory` | what a name in it is worth; its allocations and what they hold |
| `types`, `symbols` | C types as dtypes of a problem; `__constant__` variables that nothing fills |
| `usage`, `bounds` | a kernel's own text: what it reads and writes, and how far its indices go |
| `infer`, `building`, `configuring`, `launching`, `contents` | the draft: buffers, grid, plan, contents |
| `sketch` | a draft as data, with a remark on all that is a guess or open |
| `sizes` | the settings of sizes that a draft is tried on |
| `form`, `reading` | the file that a person finishes in an editor |
| `admit`, `stage` | trying a draft on the emulator; many drafts, counted |

Not covered: judging (`kcurate.judge`), what the suites' own problems say (`kcurate.suites.problems`).
"""
