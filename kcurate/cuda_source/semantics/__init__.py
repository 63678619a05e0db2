"""What code means, as far as its text tells: values, types, and what happens behind a pointer.

| module | owns |
|---|---|
| `code_index` | a file or unit, indexed: functions, calls, what sets a name |
| `declarations` | what declarations and assignments set; the members of structs |
| `pointer_paths` | the variable that an expression starts from |
| `c_expressions` | C expressions as trees of our own |
| `inlined_calls` | a kernel's body with its device functions written out |
| `pointer_usage` | what a kernel reads and writes behind each pointer |
| `builtin_effects` | what CUDA's own functions do besides giving a value |
"""
