"""The preprocessor: one text from many files, and macros expanded where they hide structure.

| module | owns |
|---|---|
| `splicing` | local includes spliced in, and the map back to the files |
| `conditions` | `#if` expressions evaluated |
| `expansion` | macros expanded |
| `macros` | macros around declarations: calls and attributes that hide a kernel, `push_macro` |
| `macro_statements` | macro calls that are whole declarations |
"""
