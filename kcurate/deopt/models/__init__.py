"""Variants written by language models, in one search loop.

| module | owns |
|---|---|
| `batches` | Message Batches |
| `attempts` | the outcome of every answer |
| `targets`, `examples` | what to ask for: a kernel, a technique, a variant |
| `gates` | what is refused before judging (and, for machine code, after) |
| `policy` | the next step of a search (`plain`, `climb`, `sqd`) |
| `history` | what a prompt for a fast side tells of the GPU and of earlier attempts |
| `answer_counters` | a profiler's counters of right answers |
| `search` | one search: prompt, answer, gates, judge, feedback |
| `bench` | the tools of a model: the judge and the profiler behind each |
| `drivers` | many searches at once, with single requests or in batches |
| `run`, `run_counts` | a whole run: searches set up, driven, counted |
| `preview` | what a run would ask and may cost |

Not covered: clients, prices, budgets and transcripts (`kcurate.models`), prompt wording
(`kcurate.prompts`), verdicts (`kcurate.judge`).
"""
