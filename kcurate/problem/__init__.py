"""Problems and plans: expressions, input generators, plan checks, comparison. No GPU, no timing.

| module | what |
|---|---|
| `addresses` | tables of pointers |
| `answered` | turns a model's answer into a side |
| `bind_once` | a cache of bound programs, shared by the stages of one judgement |
| `c_types` | C types as problem dtypes |
| `calls` | a PyTorch module call bound to sizes |
| `check` | checks a candidate before anything runs |
| `compare` | whether an output equals the reference, within the rounding of its arithmetic |
| `dtypes` | element types and struct layouts |
| `expressions` | the expression language of sizes: integer arithmetic, parsed and never `eval`ed |
| `groups` | groups of an output's elements, and how far each group is off |
| `inputs/` | the contents of input buffers: seeded generators, by name |
| `layout` | converts logical arrays to a side's own layout and back |
| `lessons` | which pairs become training examples, and what each prompt asks for |
| `neutral` | a candidate as it is published: no comments, no names that reveal the slow or fast side |
| `ops` | a plan bound to sizes, as plain data |
| `outputs` | sizes of buffers, and how each output is checked |
| `program` | binds a plan and a side's buffers to sizes |
| `shown` | sides and problems as a model sees them |
| `size_gaps` | what the test sizes of a problem leave untested, and test sizes that would cover it |
| `techniques` | optimisation techniques |
| `tensor_maps` | TMA tensor maps |
| `triton_launch` | launches of a side in Triton |
"""
