"""The random model of the recipe `tiny`, and the default model that nobody downloads by accident."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate import cli
from kcurate.evaluation import taught
from kcurate.local_models import weights
from kcurate.local_models.form import Form
from kcurate.reward import pair_tasks
from kcurate.train import grpo, random_model, sft
from kcurate.train.config import resolve
from kcurate.train.run_tasks import load_tasks
from kcurate.train.stage import TrainConfig

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training.md"
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def test_it_has_two_million_weights_and_reads_every_text(pairs: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tasks = pair_tasks.load(str(pairs), brief=True, untimed=True)
    random_model.write(tmp_path / "base", tasks, seed=1)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    vocabulary = random_model.VOCABULARY * random_model.WIDTH
    rest = sum(one.numel() for one in model.parameters()) - model.get_input_embeddings().weight.numel()
    assert 1.9e6 < rest + vocabulary < 2.1e6
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    text = "__global__ void k(float* x) { x[0] = 1.0f; } // caf\u00e9"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert not list(tmp_path.glob("*.part"))


def test_the_tasks_of_the_recipe_fit_its_token_limits(tmp_path: Path) -> None:
    """The first tasks by name had prompts that were all too long, so that the documented run failed."""
    settings = resolve(recipe="tiny", file=None, sets=(), options={})
    tasks = load_tasks(settings)
    random_model.write(tmp_path / "base", (*tasks.sft, *tasks.grpo), seed=1)
    model = replace(settings.model, name=str(tmp_path / "base"))
    form = Form(weights.load_tokenizer(model), model)
    assert grpo.rows(tasks.grpo, form, settings.grpo)
    rows, too_long = sft.rows(tasks.sft, form, settings.sft.max_tokens)
    assert len(rows) > too_long
    assert tasks.held_out


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_documented_run_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/training.md has it, on the built-in pairs."""
    (line,) = re.findall(r"^\$ kcurate (train --recipe tiny)$", PAGE.read_text("utf-8"), re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KCURATE_BACKEND", "emulator")
    assert cli.run(line.split()) == 0
    assert "run folder: kcurate-work/runs/train-" in capsys.readouterr().err
    assert [path.parent.parent.name for path in tmp_path.rglob("adapter_config.json")]


@pytest.mark.slow
def test_it_trains_and_says_that_it_learns_nothing(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    sets = ["--set", "tasks.untimed=true", "--set", "sft.max_steps=1", "--samples", "0"]
    args = ["train", "sft", "--recipe", "tiny", "--dataset", str(pairs), "--out", str(out), *sets]
    assert cli.run([*args, "--backend", "emulator"]) == 0
    assert "learns nothing useful" in capsys.readouterr().err
    assert (out / "base" / "config.json").is_file()
    assert (out / "sft" / "adapter" / "adapter_config.json").is_file()
    known = taught.read(out / "sft" / "adapter")
    assert known is not None and known.families


def test_the_default_model_is_not_downloaded_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[TrainConfig] = []

    def run(config: TrainConfig, **_: object) -> None:
        begun.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("kcurate.train.stage.run", run)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["train"]) == 1
    said = capsys.readouterr().err
    assert "DeepSeek-R1-Distill-Qwen-7B, 15.2 GB to download" in said
    assert "--yes goes on" in said
    assert begun == []
    assert not list(tmp_path.iterdir())
    assert cli.run(["train", "--yes"]) == 130
    assert len(begun) == 1


def test_an_interrupted_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: TrainConfig, **_: object) -> None:
        config.out.mkdir(parents=True)
        (config.out / "config.toml").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr("kcurate.train.stage.run", run)
    assert cli.run(["train", "--recipe", "tiny", "--out", str(tmp_path / "run")]) == 130
    assert f"to go on: kcurate train --resume --out {tmp_path / 'run'}" in capsys.readouterr().err
