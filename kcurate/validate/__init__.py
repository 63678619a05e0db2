"""The validate stage: judges the candidates in pair folders.

| module | what |
|---|---|
| `inputs` | reads pair folders as candidates; one that cannot be judged gets a verdict as well |
| `settings` | the settings of `kcurate validate` |
| `stage` | `kcurate validate`: judges the candidates in pair folders and stores the verdicts |
"""
