"""vf-validate passes every known answer and no empty reply; the ends of rollouts are scored."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import verifiers.v1 as vf

from kcurate.integrations.verifiers import KernelTaskConfig, KernelTaskset, KernelTasksetConfig

told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
command = [Path(sys.executable).with_name("vf-validate"), "kcurate-kernels", "--runtime.type", "subprocess"]
command += ["--taskset.task.url", told["url"], "--taskset.task.pairs", told["pairs"], "--no-rich"]
done = subprocess.run(command, capture_output=True, text=True, check=False)
assert done.returncode == 0, done.stdout + done.stderr
summary = json.loads(done.stdout[done.stdout.index("{") :])
assert summary["outcomes"]["valid"] == summary["total"] == 2, summary
assert [summary["checks"][check]["valid"] for check in ("gold", "noop")] == [2, 2], summary

tasks = list(KernelTaskset(KernelTasksetConfig(task=KernelTaskConfig(url=told["url"]))))
assert [one.key for one in tasks] == ["test/scale", "test/shift"]


async def scored(text: str) -> vf.Trace:
    """The trace of a rollout that ended with this reply, scored."""
    task = tasks[0]
    trace = vf.Trace(
        task=vf.TraceTask(type="KernelTask", data=task.data, key=task.key, hash=task.hash),
        state=vf.State(),
        agent=vf.AgentInfo(config=vf.AgentConfig(), name="agent", trainable=True),
        root_reply=text,
    )
    await task.score(trace)
    return trace


async def main() -> None:
    kinds = ("right", "copy", "wrong")
    traces = await asyncio.gather(*(scored(told["replies"][kind]) for kind in kinds))
    assert [one.reward for one in traces] == [0.3, 0.0, 0.1], [one.rewards for one in traces]
    assert [one.metrics["correct"] for one in traces] == [1.0, 0.0, 0.0]


asyncio.run(main())
print("verifiers: fine")
