"""veRL: rows for its dataset, and the reward function that its configuration names.

    custom_reward_function.path=pkg://kcurate.integrations.verl
    custom_reward_function.name=compute_score
    +custom_reward_function.reward_kwargs.url=http://127.0.0.1:8077

veRL scores one completion at a time, so a scheme that compares a group (`staged-tiers`) sees groups of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcurate.client import DEFAULT_URL, Client
from kcurate.integrations import client_of, judged_beside, numbers

SOURCE = "kcurate"


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    url: str = DEFAULT_URL,
    token: str | None = None,
    scheme: str = "pairs",
    **_: Any,
) -> dict[str, float | str]:
    """The reward of a completion (`score`), and numbers to log. `ground_truth`: the task's id, from `rows`.

    Raises:
        InputError, RemoteError: see `kcurate.client.Client`.
    """
    result = await judged_beside(client_of(url, token=token), ground_truth, solution_str, scheme)
    values = numbers(result)
    return {"score": values.pop("reward"), **values, "outcome": result.outcome}


def rows(client: Client, **filters: Any) -> Iterator[dict[str, Any]]:
    """The rows of a veRL dataset (write them as Parquet); `filters` as in `Client.tasks`."""
    for index, task in enumerate(client.every_task(**filters)):
        yield {
            "data_source": SOURCE,
            "prompt": [dict(message) for message in task.prompt],
            "ability": "cuda",
            "reward_model": {"style": "rule", "ground_truth": task.id},
            "extra_info": {"index": index, "family": task.family},
        }
