"""PTX as text. The static checks and the emulator read the same rows: what is allowed is what is emulated.

| module | owns |
|---|---|
| `parse` | inline assembly split into statements |
| `rows` | what each instruction means |
| `table` | the row of an instruction |
| `outside` | what compiled code takes from outside its launch |
"""
