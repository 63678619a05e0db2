"""Inspect evaluates a model of known replies, with standard errors by family."""

import json
import sys
from pathlib import Path

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from kcurate.integrations.inspect_task import kernels

told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
task = kernels(url=told["url"], split="train")
(sample,) = task.dataset


def said(text: str) -> ModelOutput:
    """A model's answer; with its tokens, since counting them would fetch a vocabulary."""
    made = ModelOutput.from_content("mockllm/model", text)
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return made


replies = [told["replies"][kind] for kind in ("right", "copy", "wrong", "none")]
model = get_model("mockllm/model", custom_outputs=[said(one) for one in replies])
(log,) = evaluate(task, model=model, epochs=4, max_samples=1, display="none", log_dir="logs")
assert log.status == "success", str(log.error.message)
print(sample.id, [one.scores["judge"].value for one in log.samples])
print({one.name: {key: m.value for key, m in one.metrics.items()} for one in log.results.scores})
print("inspect: fine")
