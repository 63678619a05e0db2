"""The contents of input buffers: seeded generators, by name.

| module | what |
|---|---|
| `contents` | the initial contents of buffers |
| `counter_based` | inputs whose every element depends on its index alone |
| `csr` | random compressed sparse rows with an exact number of entries |
| `draws` | the input of a generator, and the registry of generators by name |
| `generators` | the input generators |
| `linked` | generators for buffers that belong together |
| `matrices` | generators for properties that computations rely on |
| `meshes` | generators for flow on unstructured meshes |
| `promises` | whether values keep a promise |
| `spoiled` | inputs spoiled for a negative control |
| `structured` | generators for structured data |
| `suffixes` | a generator of suffix trees of a sequence, and of queries to look up in them |
"""
