"""`kcurate verify-dataset`: judges published rows again.

| module | what |
|---|---|
| `settings` | the settings of `kcurate verify-dataset` |
| `stage` | `kcurate verify-dataset`: judges published rows again and reports drift |
"""
