"""PTX as text: `parse` splits inline assembly into statements, `rows` says what each means, `table` finds it.

The static checks and the emulator read the same rows, so what is allowed and what is emulated cannot differ.
"""
