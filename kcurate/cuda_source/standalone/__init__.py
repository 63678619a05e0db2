"""One file for one kernel: what it needs, and the repairs that let it compile alone.

| module | owns |
|---|---|
| `unit` | everything in one translation unit |
| `closure` | the declarations that a kernel needs, written as one file |
| `meanings` | what a declaration or a use of a name can mean |
| `host_methods` | methods of classes that only the host may call |
| `source_repairs` | changes to the text of one declaration |
| `shim` | declarations that legacy code lacks, from `*.cuh` |
| `trimming` | a file without declarations that do not compile and that nothing needs |
| `header_names` | `std::` names that device code can have, and the headers to include |
"""
