"""A draft from recorded launches of a running program.

| where | what |
|---|---|
| `launch_records` | the recorded launches of a kernel |
| `launch_arguments` | what they passed, by the kernel's parameters |
| `from_launches` | the draft |
| `candidate_expressions` | expressions over sizes that give the recorded numbers |
| `expression_choice` | which of them stands for a number |
| `buffer_regions` | which part of an allocation is a buffer |
| `recorded_contents` | what the buffers hold |
| `triton_launches` | the same for kernels in Triton |

Not covered: recording (`kcurate.capture`), whether a draft works (`kcurate.draft.trying`).
"""
