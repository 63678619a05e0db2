"""Draft problems for kernels that nobody described: read off the code, tried on the emulator, open where
nothing tells.

| module | owns |
|---|---|
| `cexpr`, `algebra` | C expressions as trees; whole-number expressions as sums of products |
| `host`, `meaning` | host code: its functions, definitions, allocations; what a name in it is worth |
| `types` | C types as dtypes of a problem |
| `usage`, `bounds` | a kernel's own text: what it reads and writes, and how far its indices go |
| `infer`, `launching`, `buffers` | the draft: problem, plan, and a remark on all that is a guess or open |
| `sizes` | the settings of sizes that a draft is tried on |
| `form`, `reading` | the file that a person finishes in an editor |
| `admit`, `stage` | trying a draft on the emulator; many drafts, counted |

Not covered: judging (`kcurate.judge`), what the suites' own problems say (`kcurate.suites.problems`).
"""
