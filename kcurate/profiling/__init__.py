"""`kcurate profile`: counters of the sides of pairs, and what they say of a label.

| module | owns |
|---|---|
| `stage` | the command: which sides are profiled, and their items |
| `profiler` | Nsight Compute on many sides, in a sandboxed process |
| `ncu` | its command line, and what it prints |
| `counters` | which counters there are, and how several launches become one side |
| `on_file` | profiles on file |
| `technique_counters` | which counters a technique moves, and which way |
| `label_check` | `--check-labels`: technique labels checked against stored profiles |
| `settings` | the settings of `kcurate profile` |

Not covered: what runs under the tool (`kcurate.judge.workers.inside.profiled`), rows of a dataset
(`kcurate.dataset.rows`).
"""
