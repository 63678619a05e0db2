"""One problem for both sides of a pair, from the admitted problem of one of them.

| where | what |
|---|---|
| `other_kernel` | the other kernel as a side of the problem: its arguments and its launch |
| `shared_problem` | both sides judged, and the problem given to the pair |

Not covered: drafts of single kernels (`kcurate.draft.inferred`, `kcurate.draft.captured`).
"""
