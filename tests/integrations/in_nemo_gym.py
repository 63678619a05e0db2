"""NeMo Gym's resources server answers /verify over HTTP."""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient

from kcurate.client import Client
from kcurate.integrations.nemo_gym import KernelConfig, KernelResourcesServer, rows

told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
config = KernelConfig(host="127.0.0.1", port=0, entrypoint="app.py", name="kcurate", judge_url=told["url"])
server = KernelResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))
row = next(rows(Client(told["url"])))
assert row["task"] == told["task"]


def response(text: str) -> dict:
    """A response of the Responses API with one message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
    empty = {"object": "response", "tools": [], "tool_choice": "auto", "parallel_tool_calls": False}
    return {"id": "r", "created_at": 0, "model": "m", "output": [message], **empty}


with TestClient(server.setup_webserver()) as http:
    expected = {"right": (0.3, 1.0), "copy": (0.0, 0.0), "wrong": (0.1, 0.0), "none": (0.0, 0.0)}
    for kind, earned in expected.items():
        answer = http.post("/verify", json={**row, "response": response(told["replies"][kind])})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["reward"], found["correct"]) == earned, (kind, found["outcome"])
        assert found["task"] == told["task"] and found["feedback"]
print("nemo_gym: fine")
