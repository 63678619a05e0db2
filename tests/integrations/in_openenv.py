"""An OpenEnv client plays an episode over the environment's own server."""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
os.environ |= {"JUDGE_URL": told["url"], "JUDGE_TURNS": "2"}

import uvicorn  # noqa: E402
from openenv.core import GenericEnvClient  # noqa: E402

from kcurate.integrations.openenv import app  # noqa: E402

listening = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app(), log_level="error"))
threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
while not server.started:
    time.sleep(0.05)

with GenericEnvClient(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}").sync() as env:
    first = env.reset(task=told["task"])
    assert first.observation["task"] == told["task"] and not first.done, first
    assert [one["role"] for one in first.observation["messages"]] == ["system", "user"]
    wrong = env.step({"reply": told["replies"]["wrong"]})
    assert (wrong.reward, wrong.done, wrong.observation["outcome"]) == (0.1, False, "mismatch"), wrong
    assert "results are wrong" in wrong.observation["messages"][0]["content"]
    right = env.step({"reply": told["replies"]["right"]})
    assert (right.reward, right.done, right.observation["numbers"]["correct"]) == (0.3, True, 1.0), right
    assert env.state()["step_count"] == 2
    assert env.reset(seed=1).observation["task"] == env.reset(seed=1).observation["task"]
    assert env.step({"reply": told["replies"]["copy"]}).reward == 0.0
server.should_exit = True
print("openenv: fine")
