"""What host code says about kernels: where they are launched, with which arguments and types.

| module | owns |
|---|---|
| `launch_sites` | launches, the loops around them, the roles of their arguments |
| `indirect_launches` | launches not written with `<<<`: runtime calls, pointers, wrappers |
| `macro_calls` | calls of macros that hold launches, expanded |
| `kernel_scopes` | which kernel of several namespaces a launch means |
| `instantiations` | the template arguments that a unit uses its kernel templates with |
| `second_reading` | these beside a compiler's reading of the same text: what differs, what is taken |
| `device_lambdas` | device lambdas as functors with a name |
| `template_heads` | template parameters, and the types of what a call passes |
| `host_names` | names local to host code, replaced by what they stand for |
"""
