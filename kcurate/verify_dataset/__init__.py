"""`kcurate verify-dataset`: judges published rows again.

| module | what |
|---|---|
| `settings` | the settings of the command |
| `stage` | the command: judges rows and reports drift |
"""
