"""Tasks for a model, and what a completion earns: it is read, judged and scored.

| module | owns |
|---|---|
| `task` | the records of a task and of a judged completion; the interface of a pool that scores them |
| `pair_tasks` | tasks from pairs: built in, of a workspace, of a dataset |
| `splits` | which families are held out |
| `answers` | a reply becomes a candidate, or is refused |
| `pool` | completions scored by judges of this machine or a Ray cluster |
| `remote` | completions scored by a `kcurate serve` |
| `settled` | the final outcome of a completion, from its verdicts; which speedups are judged a second time |
| `schemes`, `own_reward` | what an outcome earns: our schemes, a user's function |
| `feedback` | what a model is shown about its earlier answer |
| `verdict_cache` | verdicts by content, in memory and in a file |
| `devices` | which GPUs judge and which one trains |
| `settings` | where completions are judged |

Not covered: sampling and scores of a model (`kcurate.evaluation`), training (`kcurate.train`).
"""
