"""Builds judged pairs into a Hugging Face dataset, checks it, and publishes it.

| module | owns |
|---|---|
| `rows`, `tuning`, `parquet` | a pair as a row of `pairs`; the training rows; typed files of rows |
| `gates` with `licences`, `secrets`, `contamination` | which rows are refused, and why |
| `columns` | the columns of each config (`columns.toml`), and the texts of the card (`card.toml`) |
| `changes` | versions, and which rows changed between them |
| `card`, `croissant` | the dataset card and the Croissant description, generated from the data |
| `stage` | `kcurate build` |
| `push` | to the Hub or a folder: compare, upload, load back, tag |
| `explained` | rows of `explained`: an answer with the measurements that explain it |
| `preferences` | rows of `preferences`: two proved answers to one prompt, balanced by length |
| `repairs` | rows of `repair`: a wrong answer, the judge's findings, and the right answer |
| `settings` | the settings of `kcurate build` and `kcurate push` |

Not covered: neutral code (`kcurate.problem.neutral`), reading rows back (`kcurate.hub.published_rows`),
judging published rows again (`kcurate.verify_dataset`), a page to browse pairs (`kcurate.report`), training
(`kcurate.train`)."""
