"""`kcurate eval`, and the scores at the end of a training run: completions sampled, judged, summarised.

| module | owns |
|---|---|
| `completions` | a completion as a row, and files of them |
| `sampling` | which prompts are sent, in how many turns; the seam to a model |
| `bench` | the tools that Claude may have between turns |
| `local_client` | a local model asked like those behind an API, for other commands |
| `local_model`, `endpoint` | models in this process (transformers), and behind an API |
| `judging` | what the judge says of completions, and the feedback for a next turn |
| `scores`, `intervals` | the numbers of a model, and their intervals by family |
| `comparing` | two models on the same tasks |
| `plot` | the comparison as a picture |
| `taught` | what an adapter was taught, and so is not scored on |
| `kernelbench_protocol` | answers as `ModelNew`, by KernelBench's own evaluator |
| `settings` | what is evaluated and how: the options of the command |
| `folder` | the files of an evaluation |
| `stage` | the command: tasks, steps |
"""
