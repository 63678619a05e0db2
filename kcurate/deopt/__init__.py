"""`kcurate deopt`: makes slow variants of fast kernels, each without one technique, with the same results.

| where | what |
|---|---|
| `stage` | the command with rules: starts in, candidates out |
| `starts` | the code, problem and plan that a variant is made from |
| `rules/` | variants by rewrite rules |
| `models/` | variants by language models |
| `settings` | the settings of `kcurate deopt` |
"""
