"""CUDA as bytes before parsing: comments, literals, matching brackets.

| module | owns |
|---|---|
| `tokens` | the lexical grammar: comments, literals, names, numbers, signs |
| `blanking` | comments, literals and text that the grammar rejects, blanked at equal length |
| `brackets` | matching brackets and top-level commas |
| `normalise` | code as it is published and compared |
| `features` | language features and optimisation techniques that the text proves |
| `demangled_names` | the parts of a kernel's demangled name |
"""
