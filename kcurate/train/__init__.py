"""`kcurate train`: supervised fine-tuning, then GRPO whose reward is the judge.

| module | owns |
|---|---|
| `stage` | the command: stages in order, judges, scores |
| `settings`, `config` | every setting; recipes and `--config` files |
| `plans` | which stages a run does, so that `--resume` does the same |
| `run_folder`, `metrics_log` | the files of a run |
| `run_tasks` | tasks for SFT, for GRPO, and held out |
| `driving` | what the trainers share: arguments, resuming, the finished adapter |
| `sft`, `rft`, `grpo` | one stage each |
| `trl_reward` | the judge as TRL's reward function |
| `turns` | several turns per completion |
| `curriculum` | stages of permitted techniques |
| `next_prompts` | which prompts are sampled next |
| `callbacks`, `gradients`, `stopping` | what happens at a step: metrics, NaN gradients, time and signals |
| `random_model` | a small random model, to try a run |
| `curves` | the plots of a run |
| `model_card`, `hub` | the card of an adapter; pushing a run |

Not covered: rewards (`kcurate.reward`), scores (`kcurate.evaluation`).
"""
