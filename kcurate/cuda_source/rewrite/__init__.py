"""Code rewritten by byte spans.

| module | owns |
|---|---|
| `edits` | replacements of spans, applied together |
| `double_accumulators` | `float` accumulators as `double` |
"""
