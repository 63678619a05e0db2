"""NeMo Gym: a resources server whose `/verify` asks the judge, and the rows of its dataset.

    python -m kcurate.integrations.nemo_gym http://127.0.0.1:8077 > data/train.jsonl

Its `app.py` and configuration are in examples/integrations/nemo_gym.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)

from kcurate.client import DEFAULT_URL, Client
from kcurate.integrations import client_of, judged_beside, numbers


class KernelConfig(BaseResourcesServerConfig):
    """The server that judges, and the reward scheme."""

    judge_url: str = DEFAULT_URL
    judge_token: str | None = None
    scheme: str = "pairs"


class KernelVerifyRequest(BaseVerifyRequest):
    """A response to the prompt of a task, by the task's id."""

    task: str


class KernelVerifyResponse(BaseVerifyResponse):
    """The request and the judge's result."""

    task: str
    outcome: str
    feedback: str
    correct: float
    copied: float
    faster: float
    speedup: float
    judged: float


class KernelResourcesServer(SimpleResourcesServer):
    """A server without tools: the text of the response is the reply."""

    config: KernelConfig

    async def verify(self, body: KernelVerifyRequest) -> KernelVerifyResponse:
        """Judge a response."""
        config = self.config
        client = client_of(config.judge_url, token=config.judge_token)
        result = await judged_beside(client, body.task, body.response.output_text, config.scheme)
        return KernelVerifyResponse(
            **body.model_dump(), outcome=result.outcome, feedback=result.feedback, **numbers(result)
        )


def rows(client: Client, **filters: Any) -> Iterator[dict[str, Any]]:
    """The rows of the resources server's dataset; `filters` as in `Client.tasks`."""
    for task in client.every_task(**filters):
        yield {
            "responses_create_params": {"input": [dict(message) for message in task.prompt]},
            "task": task.id,
        }


if __name__ == "__main__":
    for row in rows(Client(sys.argv[1])):
        print(json.dumps(row))
