"""Builds judged pairs into a Hugging Face dataset, checks it, and publishes it.

| module | owns |
|---|---|
| `rows`, `tuning`, `parquet` | a pair as a row of `pairs`, `sft` and `grpo`; typed files of rows |
| `gates` with `licences`, `secrets`, `duplicates`, `contamination` | which rows are refused, and why |
| `splits`, `changes` | train or test by family; versions and the changes between them |
| `card`, `plot` | the dataset card, generated from the data |
| `stage` | `kcurate build` |
| `push` | to the Hub or a folder: compare, upload, load back, tag |

Not covered: neutral code (`kcurate.problem.neutral`), reading rows back (`kcurate.hub.published_rows`),
judging published rows again (`kcurate.verify_dataset`), a page to browse pairs (`kcurate.report`), training
(`kcurate.train`)."""
