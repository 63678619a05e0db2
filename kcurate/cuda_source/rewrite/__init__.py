"""Device code rewritten for the judge.

| module | owns |
|---|---|
| `double_accumulators` | `float` accumulators as `double` |
"""
