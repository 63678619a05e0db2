"""The settings of `kcurate deopt`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from kcurate.backends.choice import EMULATED, Place
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    MAX_TOKENS,
    TOOL_CALLS,
    TOOL_SECONDS,
    Argument,
    EffortOption,
    JobsOption,
    MaxTokensOption,
    MaxUsdOption,
    Option,
    RayOption,
    TimeoutOption,
    ToolCallsOption,
    ToolSecondsOption,
    WorkspaceOption,
)

if TYPE_CHECKING:
    from kcurate.models.conversation import Limits
    from kcurate.records import Language, Side, SideName

# The value of `model` with which the rules of `kcurate.deopt.rules` write variants, and no model is called.
BY_RULES = "rules"
# The options of a run by rules; all others only affect models.
RULES_OPTIONS = frozenset({"workspace", "paths", "model", "rules", "direction", "jobs"})
# A search ends after this many consecutive rounds without a gain.
IDLE_ROUNDS = 2


@dataclass(frozen=True)
class DeoptConfig:
    """The code to rewrite, and by which rules or model. `jobs` does not affect what the rules write.

    `max_usd` limits this run; spending of earlier runs is not counted. For a fast side, each of the `rounds`
    asks for `candidates` answers; `idle_rounds` consecutive rounds with little gain end a search.
    """

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    paths: Annotated[
        tuple[Path, ...],
        Argument(
            "Kernels or pairs: paths, ids, or unique prefixes of ids; source trees (extracted first); "
            "default: the workspace's kernels.",
            metavar="PATH",
            completes="either",
        ),
    ] = ()
    model: Annotated[
        str,
        Option(
            "Who writes: rules, claude, claude-<version>, openai:<model>@<base-url>, or FILE.gguf.",
            metavar="NAME",
        ),
    ] = BY_RULES
    rules: Annotated[
        tuple[str, ...],
        Option(
            "Only this rule; may be repeated.  [default: all]",
            metavar="NAME",
            check="kcurate.deopt.stage:chosen_rules",
        ),
    ] = ()
    techniques: Annotated[
        tuple[str, ...],
        Option(
            "Models: the techniques to remove (or add).  [default: those that the code shows]",
            metavar="NAME,...",
        ),
    ] = ()
    variants: Annotated[int, Option("Models: variants per technique.", metavar="N", min=1)] = 1
    rounds: Annotated[int, Option("Models: attempts per variant.", metavar="R", min=1)] = 3
    candidates: Annotated[
        int, Option("For a fast side: answers asked for in a round.", metavar="K", min=1)
    ] = 1
    idle_rounds: Annotated[
        int, Option("Models, for a fast side: end after N rounds that gain less than 5%.", metavar="N", min=1)
    ] = IDLE_ROUNDS
    direction: Annotated[
        Literal["slow", "fast", "translate"],
        Option(
            "Models: write the slow side for fast code, the fast side for slow code, or a fast side in "
            "the other language (CUDA, Triton)."
        ),
    ] = "slow"
    policy: Annotated[
        Literal["plain", "sqd"],
        Option("Models: how to choose the next attempt; sqd works through techniques in stages."),
    ] = "plain"
    max_usd: MaxUsdOption = None
    price: Annotated[
        str | None,
        Option("Models: price in USD per million tokens.  [default: the built-in table]", metavar="IN,OUT"),
    ] = None
    effort: EffortOption = None
    tool_calls: ToolCallsOption = TOOL_CALLS
    tool_seconds: ToolSecondsOption = TOOL_SECONDS
    batch: Annotated[bool, Option("Claude: use the Batch API: half the price, slower.")] = False
    max_tokens: MaxTokensOption = MAX_TOKENS
    timeout_s: TimeoutOption = None
    concurrency: Annotated[int, Option("Models: concurrent requests.", metavar="N", min=1, max=256)] = 8
    place: Place = EMULATED
    jobs: JobsOption = 1
    ray: RayOption = None

    @property
    def limits(self) -> Limits:
        """The limits on a model's tool calls for an answer."""
        from kcurate.models.conversation import Limits

        return Limits(self.tool_calls, self.tool_seconds)

    @property
    def options(self) -> Mapping[str, float | str]:
        """Options of requests besides the prompt."""
        return {"effort": self.effort} if self.effort else {}

    @property
    def written_side(self) -> SideName:
        """The side to write."""
        return "slow" if self.direction == "slow" else "fast"

    def written_language(self, given: Side) -> Language:
        """The language to write it in."""
        if self.direction == "translate":
            return "cuda" if given.language == "triton" else "triton"
        return "triton" if given.language == "triton" else "cuda"
