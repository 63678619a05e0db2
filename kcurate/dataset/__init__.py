"""Builds judged pairs into a Hugging Face dataset, checks it, and publishes it.

| module | owns |
|---|---|
| `rows`, `tuning`, `parquet` | a pair as a row of `pairs`, `sft` and `grpo`; typed files of rows |
| `gates` with `licences`, `secrets`, `duplicates`, `contamination` | which rows are refused, and why |
| `changes` | train or test by family; versions and the changes between them |
| `card`, `plot` | the dataset card, generated from the data |
| `stage` | `kcurate build` |
| `push` | to the Hub or a folder: compare, upload, load back, tag |
| `explained` | rows of `explained` |
| `material` | which counters change enough between two sides to be told of |
| `profile_rows` | rows of `profiles`: what a side of a published pair did on one GPU, by counter |
| `push_folder` | publishes into a local folder |
| `repairs` | rows of `repair`: a wrong answer, what the judge says of it, and the right one |
| `settings` | the settings of `kcurate build` and `kcurate push` |

Not covered: neutral code (`kcurate.problem.neutral`), reading rows back (`kcurate.hub.published_rows`),
judging published rows again (`kcurate.verify_dataset`), a page to browse pairs (`kcurate.report`), training
(`kcurate.train`)."""
