"""`kcurate tune`: a side's block size and constants, or its launch's in Triton, searched with the judge.

| where | what |
|---|---|
| `knobs` | what can be set in a side, and a side with other values |
| `stage` | trials, their order and verdicts, the best setting written as a pair |
| `settings` | the settings of `kcurate tune` |
"""
