"""Whether drafts work: they are tried on the emulator, or on a GPU, and completed where they are open.

| where | what |
|---|---|
| `admit` | tries one draft, from the hardest sizes to the easiest |
| `draft_choice` | which of a kernel's drafts counts, and what is written of it |
| `measured_extents` | extents that only a run of the kernel gives |
| `model_proposals` | a language model fills in what is open |
| `completed_files` | files that a person or a model completed: read, run, admitted or refused |

Not covered: making a draft (`kcurate.draft.inferred`, `kcurate.draft.captured`), judging (`kcurate.judge`).
"""
