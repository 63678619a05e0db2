"""Makes slow variants of fast kernels, each without one technique: same function, same signature.

| where | what |
|---|---|
| `stage` | `kcurate deopt`: starts in, candidates out |
| `starts` | the code, problem and plan that a variant is made from |
| `rules/` | variants by rewrite rules |
| `models/` | variants by language models |
| `settings` | the settings of `kcurate deopt` |
"""
