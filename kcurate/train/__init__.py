"""`kcurate train`: supervised fine-tuning, then GRPO whose reward is the judge.

| module | owns |
|---|---|
| `stage` | the command: runs the stages in order, opens the judges, scores the result |
| `settings`, `config` | every setting; recipes and `--config` files |
| `plans` | which stages a run does, so that `--resume` does the same |
| `run_folder` | the files of a run, its metrics log included |
| `run_tasks` | tasks for SFT, for GRPO, and held out |
| `driving` | what the trainers share: arguments, resuming, saving the finished adapter |
| `sft`, `rft`, `grpo` | one stage each |
| `trl_reward` | the judge as TRL's reward function |
| `turns` | several turns per completion |
| `curriculum` | stages of permitted techniques |
| `next_prompts` | which prompts are sampled next |
| `callbacks`, `stopping` | what happens between steps: metrics, NaN gradients, time limit and signals |
| `random_model` | a small random model, to try a run |
| `curves` | the plots of a run |
| `hub` | the card of an adapter; pushing a run |

Not covered: rewards (`kcurate.reward`), scores (`kcurate.evaluation`).
"""
