"""`kcurate train`: supervised fine-tuning, then GRPO whose reward is the judge."""
