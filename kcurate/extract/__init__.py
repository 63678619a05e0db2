"""The `extract` stage: source trees in, self-contained kernels and natural pairs out.

| where | what |
|---|---|
| `stage` | the command: walk, parse, compile, match, count |
| `walk` | every file at or below a path |
| `sources` | the files worth parsing, and the unit to parse each from |
| `includes` | which files a file includes |
| `flags`, `build_files` | compile flags, and the build files that state them |
| `units` | the kernels and launches of one translation unit |
| `second_reader`, `clang_worker` | how libclang reads a unit: the caller, and the sandboxed process |
| `triton_files` | Triton kernels in Python files |
| `merge`, `naming` | one record per kernel, and its folder's name |
| `compiling` | compile-checks a kernel and writes its folder |
| `joining` | one code from the files of a pipeline |
| `pairs`, `versions` | which kernels make a natural pair: by variant folder, by name |
| `candidates` | writes natural pairs as candidates |
| `history`, `commit_changes` | pairs from the commits of a repository: the stage, and one commit |
| `git_objects`, `snapshots` | reads git repositories; writes the files of a revision that a kernel needs |
| `from_shards` | rows of a dataset instead of trees: the stage |
| `shards`, `row_groups`, `copies` | rows of Parquet and JSON lines; grouped by repository; which are copies |
| `rights` | the licence and copyright holders of a kernel, and the files that state them |
| `reasons`, `reporting` | why a file has no kernel; outcomes and their counts |
| `settings` | the settings of `kcurate extract` |

Not covered: extracting code from a file (`kcurate.cuda_source`, `kcurate.triton_source`).
"""
