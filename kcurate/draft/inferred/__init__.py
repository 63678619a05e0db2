"""A draft from code alone: the kernel's and its host's.

| where | what |
|---|---|
| `from_code` | the drafts of a kernel, one for each of its launches, best first |
| `one_launch` | the draft that one launch gives |
| `draft_parts` | the parts of a draft that is being built |
| `scalar_parameters`, `pointer_parameters` | parameters by value; buffers |
| `launch_configuration` | grid and block, and which host names are sizes |
| `launch_guess` | a launch for a kernel that no host code launches |
| `index_bounds` | how far the kernel's indices go |
| `buffer_contents` | initial contents, from how the kernel uses the values |
| `struct_numbers` | structs by value: values for their numeric members, and the pointers among them |
| `struct_members` | structs by value with pointers: each member as a parameter |
| `accessors` | PyTorch's packed accessors as such structs |

Not covered: recorded launches (`kcurate.draft.captured`), whether a draft works (`kcurate.draft.trying`).
"""
