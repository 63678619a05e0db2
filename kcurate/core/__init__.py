"""Shared by all stages: records in files, the workspace and its runs, settings, and small tools.

| module | what |
|---|---|
| `cluster` | connects to a Ray cluster, and a pool whose workers are on its nodes |
| `codec` | records to plain JSON data and back |
| `compile_cache` | results of compilers, in files that all runs share |
| `config` | the settings file `kcurate.toml` and the names of the variables |
| `grouping` | pairs of a key and a value as lists by key |
| `headers` | the headers that a side may include, that extract keeps, that the emulator has |
| `json_text` | JSON for people and models |
| `licence_texts` | licences, restrictions and copyright lines in a text |
| `limited_output` | the output of a process, limited in size |
| `lock_files` | advisory locks between processes |
| `names` | a pair or kernel by path, id, or prefix of an id |
| `notes` | the messages of a stage while it runs |
| `options` | declares the option of a settings field, once for command line, file and docs |
| `own_files` | reads untrusted files of a workspace: size limits, no links that lead outside |
| `pack_shards` | Parquet shards of records |
| `packing` | files into shards and back |
| `packs` | files by path, whether they are files or rows of a shard |
| `plugins` | plugins of installed packages, by entry points |
| `progress` | progress bars on a terminal |
| `resources` | where `schemas/`, `sources/`, `pairs/` are, in a checkout and in a wheel |
| `runs` | the record of one run of a stage |
| `store` | the only reader and writer of record files: schemas, atomic writes, content ids |
| `time_limits` | time limits for compiling, running and timing device code |
| `worker_pool` | worker processes that survive a crash or hang in one of them |
| `workspace` | the layout of the folder that a command works in |
"""
