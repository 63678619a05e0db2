"""`kcurate eval`, and the scores at the end of a training run: completions sampled, judged, summarised.

| module | owns |
|---|---|
| `completions` | a completion as a row, and files of them |
| `sampling` | which prompts are sent, in how many turns; the interface of a model |
| `local_client` | a local model with the interface of those behind an API, for other commands |
| `local_model` | models in this process (transformers) |
| `endpoint` | models behind an API, and the tools that Claude may have between turns |
| `judging` | completions through the judges |
| `scores`, `intervals` | the scores of a model, and their intervals by family |
| `comparing` | two models on the same tasks, and the plot of the comparison |
| `taught` | which tasks an adapter was trained on, so that it is not scored on them |
| `kernelbench_protocol` | answers as `ModelNew`, judged by KernelBench's own evaluator |
| `settings` | the options of the command |
| `folder` | the files of an evaluation |
| `stage` | the command: tasks, steps |
"""
