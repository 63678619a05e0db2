"""Variants written by language models, in one search loop.

| module | owns |
|---|---|
| `naming` | what `--model` means |
| `prices`, `budget` | what tokens cost (`prices.toml`), and the limit on what a run may spend |
| `transcripts` | every exchange on file, so that none is paid for twice |
| `client`, `failures` | the seam: a prompt in, an exchange out; errors sorted; retries with back-off |
| `claude`, `compatible`, `batches` | the Messages API, chat-completion servers, Message Batches |
| `asking`, `attempts` | every request through one place; what became of every answer |
| `targets`, `examples` | what is asked for: a kernel, a technique, a variant |
| `gates` | what is refused before (and, for machine code, after) the judge has seen it |
| `policy` | which step a search takes next (`plain`, `sqd`) |
| `search` | one search: prompt, answer, gates, judge, feedback |
| `drivers` | many searches at once, one request at a time or in batches |
| `run`, `counting` | the whole: searches set up, driven, counted |
| `preview` | what a run would ask and may cost |

Not covered: the wording (`kcurate.prompts`), the decision (`kcurate.judge`).
"""
