"""The judge of a `kcurate serve` for other training frameworks, one module for each.

| module | for |
|---|---|
| `verl` | veRL: a reward function |
| `verifiers` | verifiers: a task set |
| `openenv` | OpenEnv: an environment, and its server |
| `nemo_gym` | NeMo Gym: a resources server |
| `inspect_task` | Inspect: a task and its scorer |

Each imports only its framework, the standard library and `kcurate.client`, so that it works with whatever
versions the framework pins: `pip install --no-deps kcurate` is enough. Not covered: starting the server
(docs/serving.md), what an outcome earns (docs/rewards.md).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from kcurate.client import THREADS, Answer, Client, Result

# One client for each server and token.
client_of = cache(Client)
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kcurate-judge")
FAILED = "harness_error"
# A reply is judged at most this often, if the judges fail on it.
_TRIES = 2


def judged(client: Client, task: str, reply: str, scheme: str) -> Result:
    """The result of one reply; it is sent a second time if the judges failed on it.

    Raises:
        InputError, RemoteError: see `Client`.
    """
    text = reply.encode("utf-8", "replace").decode()
    for _ in range(_TRIES):
        (result,) = client.judge([Answer(task, reply=text)], scheme=scheme).results
        if result.outcome != FAILED:
            break
    return result


async def judged_beside(client: Client, task: str, reply: str, scheme: str) -> Result:
    """`judged` in one of `THREADS` threads, so that many replies can wait at the same time."""
    return await asyncio.get_running_loop().run_in_executor(_threads, judged, client, task, reply, scheme)


def numbers(result: Result) -> dict[str, float]:
    """A result as numbers to log. A copy is not `correct`; `speedup` is 0 if nothing was timed.

    `judged` 0: the judges failed, which says nothing about the reply.
    """
    copied = result.outcome == "copied"
    return {
        "reward": result.reward,
        "correct": float(result.correct and not copied),
        "copied": float(copied),
        "faster": float(result.outcome == "confirmed"),
        "speedup": result.speedup or 0.0,
        "judged": float(result.outcome != FAILED),
    }
