"""What a kernel's host code says: where it is, the values of its names, the memory that it allocates.

| where | what |
|---|---|
| `host_files` | the files that hold the host code of a kernel |
| `name_values` | values of names, through definitions, macros, callers and small functions |
| `idioms` | what an expression tells by its text alone: rounded-up counts, sizes of types |
| `allocations` | the allocation behind a pointer |
| `containers` | how many elements vectors, buffers and tensors hold |

Not covered: which launch configuration and which buffers follow (`kcurate.draft.inferred`).
"""
