"""veRL loads the reward function by its configuration and scores token ids with it."""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

from kcurate.client import Client
from kcurate.integrations.verl import rows

told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
found = list(rows(Client(told["url"])))
assert [one["reward_model"]["ground_truth"] for one in found] == ["test/scale", "test/shift"], found
assert [message["role"] for message in found[0]["prompt"]] == ["system", "user"]


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def decode(self, ids: torch.Tensor, **_: object) -> str:
        return bytes(ids.tolist()).decode()


def batch(row: dict, text: str) -> DataProto:
    ids = torch.tensor([[*text.encode(), 0]])
    mask = torch.ones(1, 1 + ids.shape[1], dtype=torch.long)
    mask[0, -1] = 0
    whole = DataProto.from_dict(
        tensors={"prompts": torch.zeros(1, 1, dtype=torch.long), "responses": ids, "attention_mask": mask}
    )
    for key in ("data_source", "reward_model", "extra_info"):
        whole.non_tensor_batch[key] = np.array([row[key]], dtype=object)
    return whole


async def main() -> None:
    own = {"path": "pkg://kcurate.integrations.verl", "name": "compute_score"}
    for name in ("naive", "dapo"):
        reward = {
            "custom_reward_function": {**own, "reward_kwargs": {"url": told["url"]}},
            "reward_manager": {"source": "register", "name": name},
            "reward_kwargs": {},
        }
        manager = load_reward_manager(OmegaConf.create({"reward": reward}), Bytes())
        judged = await asyncio.gather(
            *(manager.run_single(batch(found[0], told["replies"][kind])) for kind in told["replies"])
        )
        scores = dict(zip(told["replies"], (one["reward_score"] for one in judged), strict=True))
        assert scores == {"right": 0.3, "copy": 0.0, "wrong": 0.1, "none": 0.0}, scores
        logged = judged[1]["reward_extra_info"]
        assert (logged["copied"], logged["correct"], logged["outcome"]) == (1.0, 0.0, "copied"), logged


asyncio.run(main())
print("verl: fine")
