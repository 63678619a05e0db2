"""Judged pairs as a Hugging Face dataset: built, gated, published, and judged again.

| module | owns |
|---|---|
| `rows`, `tuning`, `parquet` | a pair as a row of `pairs`, of `sft` and `grpo`; typed files of rows |
| `gates` with `licences`, `secrets`, `duplicates`, `contamination` | what may not leave, and why |
| `splits`, `changes` | train or test by family; versions and what changed between them |
| `card`, `plot` | the dataset card, from the data |
| `stage` | `kcurate build` |
| `push` | to the Hub: compare, upload, tag, load back |

Not covered: code as it is published (`kcurate.neutral`), rows read back (`kcurate.published_rows`), a
page to browse pairs in (`kcurate.report`), training (it reads the dataset).
"""
