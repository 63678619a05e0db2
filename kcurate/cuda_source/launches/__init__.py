"""What host code says about kernels: where they are launched, with which arguments and types.

| module | owns |
|---|---|
| `launch_sites` | launches, the loops around them, the roles of their arguments |
| `indirect_launches` | launches not written with `<<<`: runtime calls, pointers, wrappers |
| `macro_calls` | expanded calls of macros that contain launches |
| `kernel_scopes` | which kernel a launch refers to, if several namespaces have one of its name |
| `instantiations` | the template arguments that a unit uses its kernel templates with |
| `second_reading` | compares these with a compiler's reading of the same text, and takes instances from it |
| `device_lambdas` | device lambdas replaced by named functors |
| `template_heads` | template parameters, and the types of what a call passes |
| `host_names` | names local to host code, replaced by their values |
"""
