"""`kcurate profile`: counters of the sides of pairs, and whether they support technique labels.

| module | owns |
|---|---|
| `stage` | the command: which sides are profiled, and their items |
| `profiler` | runs Nsight Compute on many sides, in a sandboxed process |
| `ncu` | Nsight Compute's command line and output |
| `counters` | the counters, and how those of several launches are combined into those of a side |
| `on_file` | profiles on file |
| `technique_counters` | the counters that a technique changes, and in which direction |
| `label_check` | `--check-labels`: technique labels checked against stored profiles |
| `settings` | the settings of `kcurate profile` |

Not covered: what runs under the tool (`kcurate.judge.workers.inside.profiled`), rows of a dataset
(`kcurate.dataset.rows`).
"""
