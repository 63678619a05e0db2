"""Variants written by language models, in one search loop.

| module | owns |
|---|---|
| `naming` | the meaning of `--model` |
| `prices`, `budget` | token prices (`prices.toml`), and the spending limit of a run |
| `transcripts` | every exchange, saved so that none is paid for twice |
| `client`, `failures` | the seam: a prompt in, an exchange out; error classification; retries with back-off |
| `claude`, `compatible`, `batches` | the Messages API, chat-completion servers, Message Batches |
| `asking`, `attempts` | the single path for requests; the outcome of every answer |
| `targets`, `examples` | what to ask for: a kernel, a technique, a variant |
| `gates` | what is refused before judging (and, for machine code, after) |
| `policy` | the next step of a search (`plain`, `sqd`) |
| `search` | one search: prompt, answer, gates, judge, feedback |
| `drivers` | many searches at once, with single requests or in batches |
| `run`, `counting` | a whole run: searches set up, driven, counted |
| `preview` | what a run would ask and may cost |

Not covered: prompt wording (`kcurate.prompts`), verdicts (`kcurate.judge`).
"""
