"""A model that runs on this machine, for training and for sampling.

| module | owns |
|---|---|
| `settings` | which model, and its adapter's size |
| `weights` | loading the model, its tokenizer and its adapter |
| `form` | prompts and answers as tokens |
| `packed` | attention in sequences of several rows |
| `libraries` | whether optional packages are installed; hides their warnings |

Not covered: models behind an API (`kcurate.models`), sampling (`kcurate.evaluation.local_model`).
"""
