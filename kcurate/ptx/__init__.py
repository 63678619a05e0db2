"""PTX as text. The static checks and the emulator share one table of instructions.

| module | owns |
|---|---|
| `parse` | inline assembly split into statements |
| `rows` | the table: the meaning of each instruction |
| `table` | looks up the row of an instruction |
| `outside` | what compiled code reads from outside its launch |
"""
