"""Static checks: what a side's source, plan and binary may not contain. Nothing runs here.

| module | what |
|---|---|
| `assembly` | inline PTX: string literals of allowed instructions, without side effects outside |
| `binary` | what a binary may not contain; whether two sides launch the same machine code in the same way |
| `compiler_names` | names by which code could tell NVRTC from the emulator's compiler |
| `findings` | the result of a static check |
| `global_state` | variables that keep state between launches, found by their declarations |
| `lexer` | device code as a flat list of tokens, for checks that hostile code must not evade |
| `own_names` | which names a side declares itself, and where they are visible |
| `pointers` | pointers made from integers: addresses that no argument provides |
| `repeated_launches` | steps of a plan repeated with unchanged inputs (the check `redone`) |
| `sham_work` | useless work that pads a slow side (the check `sham`), and text that says which side it is |
| `soft_questions` | templates that ask which members a type has |
| `source` | calls that a kernel does not need in order to compute, and host code |
| `spelling` | spelling tricks |
| `static` | the static checks by name, before compiling and on the binary |
| `unread` | evidence from the compiled kernels of a slow side that was made |
| `word_lists` | the word lists behind the static checks: what a side must not name, and what it may |
"""
