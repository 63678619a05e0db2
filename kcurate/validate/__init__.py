"""The validate stage: judges the candidates in pair folders.

| module | what |
|---|---|
| `settings` | the settings of `kcurate validate` |
| `stage` | `kcurate validate`: judges the candidates in pair folders and stores the verdicts |
"""
