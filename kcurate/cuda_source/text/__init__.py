"""CUDA read as bytes, before any parse: what is comment, what is literal, which brackets match.

| module | owns |
|---|---|
| `tokens` | the lexical grammar: comments, literals, names, numbers, signs |
| `blanking` | comments and literals as blanks, at equal length; what else the grammar rejects |
| `brackets` | matching brackets and top-level commas |
| `normalise` | code as it is published and compared |
| `features` | language features and optimisation techniques that the text proves |
| `demangled_names` | a kernel's demangled name, taken apart |
"""
