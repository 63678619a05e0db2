"""Variants written by language models, in one search loop.

| module | owns |
|---|---|
| `batches` | requests through Claude's Batch API |
| `attempts` | the outcome of every answer, on file |
| `targets`, `examples` | the goal of a search (a kernel, a technique, a variant), and pairs to show in its
prompts |
| `gates` | refuses answers before judging, and drops some after it |
| `policy` | the next step of a search (`plain`, `climb`, `sqd`) |
| `history` | what a prompt for a fast side says about the GPU and earlier attempts |
| `search` | one search: prompt, answer, gates, judge, feedback |
| `bench` | the tools of a model: the judge and the profiler behind each |
| `drivers` | many searches at once, with single requests or in batches |
| `run` | a whole run: sets up searches, drives them, counts outcomes |
| `preview` | the first prompts of a run, and its cost |

Not covered: clients, prices, budgets and transcripts (`kcurate.models`), prompt wording
(`kcurate.prompts`), verdicts (`kcurate.judge`).
"""
