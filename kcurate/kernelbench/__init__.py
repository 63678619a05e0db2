"""KernelBench's PyTorch modules as tasks.

| module | owns |
|---|---|
| `tasks` | the tasks of a checkout, a folder or a dataset on the Hub |
| `worker` | a process that turns modules into problems |
| `torch_process` | a sandboxed process with torch, which also runs published answers |
| `module_problem` | a module becomes a problem |
| `meta_shapes` | shapes and dtypes of a module's inputs and outputs, without computing anything |
| `sizes` | a module's sizes, and shapes as expressions of them |
| `values` | the input generator that makes values like a module's inputs |
| `strength` | whether a problem's tests reject wrong answers, and accept rounding |
| `evaluator` | the process that runs KernelBench's own evaluator |

Not covered: evaluating by KernelBench's protocol (`kcurate.evaluation.kernelbench_protocol`).
"""
