"""The contents of input buffers: seeded generators, by name.

| module | what |
|---|---|
| `contents` | the initial contents of buffers |
| `counter_based` | inputs in which each element depends only on its index |
| `csr` | random compressed sparse rows with an exact number of entries |
| `draws` | the input of a generator, and the registry of generators by name |
| `generators` | the basic input generators |
| `linked` | generators for buffers that belong together |
| `planted` | values at secret places: literals of a side's text, extremes |
| `spoiled` | inputs changed for a negative control |
| `structured` | generators for structured data: formulas, records, matrices, meshes |
| `suffixes` | a generator of suffix trees of a sequence, and of queries to look up in them |
"""
