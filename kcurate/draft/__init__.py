"""Drafts problems for undescribed kernels: inferred from the code or from recorded launches, tried on the
emulator, and left open where neither determines a value.

| where | what |
|---|---|
| `stage` | the command: kernels in, a draft beside each, counts |
| `sketch` | a draft as data, with a remark on everything guessed or open |
| `algebra` | integer expressions as sums of products |
| `size_settings` | the sizes that a draft is tried on |
| `host/` | what the host code says: values of names, allocations |
| `inferred/` | a draft from the code of kernel and host |
| `captured/` | a draft from recorded launches |
| `file/` | `problem.toml`, which the user completes in an editor |
| `trying/` | trying drafts on the emulator, completing them, choosing one |
| `for_pairs/` | one problem for both sides of a pair |
| `settings` | the settings of `kcurate problem draft` |

Not covered: judging (`kcurate.judge`), the problems shipped with suites (`kcurate.suites.problems`).
"""
