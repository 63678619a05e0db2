"""Language models as stages ask them: a prompt in, an exchange out, paid for once and within a budget.

| module | owns |
|---|---|
| `naming` | the meaning of `--model` |
| `prices` | token prices (`prices.toml`), and the spending limit of a run |
| `transcripts` | every exchange, saved so that none is paid for twice |
| `client` | the seam: a prompt in, an exchange out; retries with back-off |
| `claude`, `compatible` | the Messages API, chat-completion servers |
| `streamed` | what their clients share; what a server's refusal means |
| `conversation` | tool calls run and answered until an answer is handed in |
| `asking`, `opening` | the single path for requests; opening it from a command's options |

Not covered: prompt wording (`kcurate.prompts`), what a stage makes of a reply (`kcurate.deopt.models`,
`kcurate.draft`), batches (`kcurate.deopt.models.batches`).
"""
