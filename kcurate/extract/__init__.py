"""The `extract` stage: source trees in, self-contained kernels and natural pairs out.

| where | what |
|---|---|
| `stage` | the command: walk, parse, compile, match, count |
| `walk` | every file at or below a path |
| `sources` | the files worth parsing, and the unit to parse each from |
| `includes` | which files a file includes |
| `flags`, `build_files` | compile flags, and the build files that state them |
| `units` | the kernels and launches of one translation unit |
| `second_reader`, `clang_worker` | what libclang reads in a unit: who asks, and the sandboxed process |
| `triton_files` | kernels in Triton of Python files |
| `merge`, `naming` | one record per kernel, and its folder's name |
| `compiling` | compile-checks a kernel and writes its folder |
| `joining` | one code from the files of a pipeline |
| `pairs`, `versions` | which kernels make a natural pair: by variant folder, by name |
| `candidates` | writes natural pairs as candidates |
| `history`, `commit_changes` | pairs from the commits of a repository: the stage, and one commit |
| `git_objects`, `snapshots` | reads git repositories; what of a revision is written to read a kernel |
| `from_shards` | rows of a dataset instead of trees: the stage |
| `shards`, `row_groups`, `copies` | rows of Parquet and JSON lines; grouped by repository; which are copies |
| `rights` | the licence and copyright holders of a kernel, and what states them |
| `reasons`, `reporting` | why a file gives no kernel; outcomes and their counts |
| `settings` | the settings of `kcurate extract` |

Not covered: taking code out of a file (`kcurate.cuda_source`, `kcurate.triton_source`).
"""
