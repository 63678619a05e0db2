"""The self-contained file of a kernel: what it needs, and the repairs that let it compile.

| module | owns |
|---|---|
| `unit` | everything in one translation unit |
| `closure` | the declarations that a kernel needs, written as one file |
| `meanings` | what a declaration or a use of a name can mean |
| `host_methods` | methods of classes that only the host may call |
| `source_repairs` | changes to the text of one declaration |
| `shim` | declarations that legacy code lacks, from `*.cuh` |
| `trimming` | removes declarations that do not compile and that nothing needs |
| `header_names` | the device counterparts of `std::` names, and the headers to include |
"""
