"""The commands that run one stage on their settings and print its summary.

Their options are the fields of the stage's settings class (`kcurate.core.options`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from kcurate.answers.settings import ImportConfig
from kcurate.backends.choice import choose
from kcurate.cli import output
from kcurate.cli.failing import FailOnOption, split
from kcurate.core.options import Argument, JsonOption, Option
from kcurate.dataset.settings import BuildConfig, PushConfig
from kcurate.extract.settings import ExtractConfig
from kcurate.mint.settings import MintConfig, RatingConfig
from kcurate.profiling.settings import ProfileConfig
from kcurate.report.settings import ReportConfig
from kcurate.serve.settings import ServeConfig
from kcurate.validate.settings import ValidateConfig
from kcurate.verify_dataset.settings import VerifyConfig


def extract(config: ExtractConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Turn any CUDA source tree into self-contained kernels and natural slow/fast pairs.

    Example: kcurate extract parboil/ -w work
    """
    from kcurate.dataset.licences import spdx
    from kcurate.extract.stage import run

    config = replace(config, licence=spdx(config.licence))
    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))


def import_(config: ImportConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Turn answers that others published (PyTorch module, CUDA) into pairs, to be proved by validate.

    Example: kcurate import kernelbench answers.jsonl --licence MIT -w work
    """
    from kcurate.answers.stage import run
    from kcurate.dataset.licences import spdx

    config = replace(config, licence=spdx(config.licence))
    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))


def mint(
    config: MintConfig,
    rating: RatingConfig,
    step: Annotated[
        Literal["problems", "rate"],
        Argument("problems; rate: how often a model solves those that are there."),
    ] = "problems",
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Compose problems that nobody wrote down: PyTorch reference, words, tests, a plain side in CUDA.

    Example: kcurate mint --count 100 --seed 1 -w work
    """
    if step == "rate":
        from kcurate.mint.rating import rate

        output.report(rate(config, rating, note=output.note), as_json=json, fail_on=split(fail_on))
        return
    from kcurate.core.workspace import Workspace
    from kcurate.mint.stage import run
    from kcurate.validate.stage import run as judge

    if config.gpu is None:
        output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))
        return

    # A GPU that is missing is reported before anything is minted.
    choose("cuda", config.gpu, note=output.note)
    written = set[str]()
    minted = run(config, note=output.note, written=written)
    pairs = Workspace(config.workspace).pairs / "minted"
    settings = ValidateConfig(config.workspace, (pairs,), "cuda", config.gpu, trust_python=True)
    judged = judge(settings, note=output.note, vouched=frozenset(written))
    if not json:
        output.show(minted, as_json=False)
    output.report(judged, as_json=json, fail_on=split(fail_on))


def validate(config: ValidateConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Prove pairs: both sides compute the same, and (on a GPU) one is faster.

    Example: kcurate validate deep-learning/softmax-block-online --gpu 0
    """
    from kcurate.validate.stage import run

    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))


def profile(
    config: ProfileConfig,
    check_labels: Annotated[
        bool, Option("Count nothing; list techniques whose counter does not move the right way.")
    ] = False,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Count what both sides of confirmed pairs do on a GPU, with Nsight Compute (ncu).

    Example: kcurate profile deep-learning/softmax-block-online --gpu 0
    """
    from kcurate.profiling import label_check, stage

    run = label_check.check if check_labels else stage.run
    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))


def build(config: BuildConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Build a dataset from the judged pairs (pairs, sft, grpo; card, attribution) in dataset/.

    Example: kcurate build -w work --against KernelBench/
    """
    from kcurate.dataset.stage import require_rows, run

    summary = run(config, note=output.note)
    output.report(summary, as_json=json, fail_on=split(fail_on))
    require_rows(summary)


def push(config: PushConfig, json: JsonOption = False) -> None:
    """Publish the built dataset: one commit, tagged with its version and loaded back.

    Example: kcurate push --repo you/pairs --dry-run
    """
    from kcurate.dataset.push import run

    output.report(run(config, note=output.note), as_json=json)


def report(config: ReportConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Write one HTML page of the pairs: plots, a table, and every pair's diff and verdicts.

    Example: kcurate report --built-in --out page.html
    """
    from kcurate.report.stage import run

    summary = run(config, note=output.note)
    output.note(f"open {config.path}")
    output.report(summary, as_json=json, fail_on=split(fail_on))


def serve(config: ServeConfig, json: JsonOption = False) -> None:
    """Judge over HTTP: tasks, answers and rewards for anybody's trainer (docs/serving.md).

    Example: kcurate serve --backend emulator --port 8077
    """
    from kcurate.serve.stage import run

    output.report(run(config, note=output.note), as_json=json)


def verify_dataset(config: VerifyConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Judge published rows again on this machine, and list those that drifted.

    Example: kcurate verify-dataset you/pairs --gpu 0 --rows 20
    """
    from kcurate.verify_dataset.stage import run

    summary = run(config, note=output.note).summary
    output.report(summary, as_json=json, fail_on=split(fail_on))
