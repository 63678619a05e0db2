"""KernelBench's PyTorch modules as tasks.

| module | owns |
|---|---|
| `tasks` | the tasks of a checkout, a folder or a dataset on the Hub |
| `worker` | a process that turns modules into problems |
| `module_problem` | a module becomes a problem |
| `meta_shapes` | what a module takes and returns, without computing anything |
| `sizes` | a module's sizes, and shapes as expressions of them |
| `values` | which input generator a module's inputs look like |
| `strength` | whether a problem's tests would refuse wrong answers, and accept rounding |
| `evaluator` | KernelBench's own evaluator, in a process of its own |

Not covered: evaluating by KernelBench's protocol (`kcurate.evaluation.kernelbench_protocol`).
"""
