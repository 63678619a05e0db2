"""The first requests of a run and their cost, without sending them; needs no key, judge or network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcurate.core import resources
from kcurate.core.workspace import Workspace
from kcurate.deopt.models.bench import definitions
from kcurate.deopt.models.examples import Examples
from kcurate.deopt.models.policy import make_policy
from kcurate.deopt.models.run import find_starts, goals, spending
from kcurate.deopt.models.search import prompt_for
from kcurate.deopt.models.targets import Target
from kcurate.deopt.settings import DeoptConfig
from kcurate.judge import JudgeConfig, describe_environment
from kcurate.models.client import Request
from kcurate.models.naming import ModelName, parse_model
from kcurate.models.prices import Price
from kcurate.models.transcripts import Transcripts, request_key
from kcurate.records import Environment, Prompt, Usage

# Rough: code has about three bytes a token, and an answer about twice the tokens of the given code.
BYTES_A_TOKEN = 3
ANSWER_FACTOR = 2


@dataclass(frozen=True)
class Preview:
    """One first request. `likely_usd` is rough, `most_usd` covers all its rounds; None without a price."""

    label: str
    request: Request
    on_file: bool
    likely_usd: float | None
    most_usd: float | None


def preview(config: DeoptConfig) -> Iterator[Preview]:
    """The first request of every search, in order; of several candidates the first.

    Raises:
        InputError: unusable options, or nothing to start from.
    """
    workspace, name = Workspace(config.workspace), parse_model(config.model)
    price = spending(config).price_of(name)
    examples = Examples(resources.pairs_dir())
    device = _device(config)
    transcripts = Transcripts(workspace.transcripts / f"{name.slug}.jsonl", name.model)
    for start in find_starts(config, workspace):
        for target in goals(config, start):
            step = make_policy(config, target).next(())
            if step is not None:
                how = config.limits if name.provider == "anthropic" else None
                prompt = prompt_for(target, step, how, examples, device)
                yield _preview(target, prompt, config, name, price, transcripts)


def _device(config: DeoptConfig) -> Environment | None:
    """The GPU that the run would judge on, if this machine has it."""
    if config.direction == "slow" or config.ray is not None or config.place.backend != "cuda":
        return None
    return describe_environment(JudgeConfig(backend="cuda", gpu=config.place.gpus[0]))


def _preview(
    target: Target,
    prompt: Prompt,
    config: DeoptConfig,
    name: ModelName,
    price: Price | None,
    transcripts: Transcripts,
) -> Preview:
    key = request_key(name.model, prompt, 1, config.max_tokens, config.options)
    tools = definitions(target, runs=config.tool_calls > 0) if name.provider == "anthropic" else ()
    request = Request(key, prompt, 1, config.max_tokens, tuple(tools))
    likely = most = None
    if price is not None:
        answer = min(config.max_tokens, ANSWER_FACTOR * len(target.given.code) // BYTES_A_TOKEN + 500)
        usage = Usage(request.size_bytes // BYTES_A_TOKEN, answer)
        likely = config.candidates * price.cost_usd(usage, batch=config.batch)
        longest = request.size_bytes + config.max_tokens * BYTES_A_TOKEN
        each = price.most_usd(longest, config.max_tokens, batch=config.batch)
        most = config.rounds * config.candidates * each
    return Preview(target.label, request, transcripts.find(key) is not None, likely, most)
