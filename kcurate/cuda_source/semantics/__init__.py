"""What code means, as far as its text tells: values, types, and accesses through pointers.

| module | owns |
|---|---|
| `code_index` | an index of a file or unit: functions, calls, assignments to names |
| `declarations` | what declarations and assignments set; the members of structs |
| `pointer_paths` | the variable that an expression starts from |
| `c_expressions` | C expressions as small trees |
| `inlined_calls` | a kernel's body with its device functions inlined |
| `pointer_usage` | what a kernel reads and writes through each pointer |
| `builtin_effects` | the side effects of CUDA's built-in functions |
"""
