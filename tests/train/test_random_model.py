"""The random model of the recipe `tiny`, and the default model that nobody downloads by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate import cli
from kcurate.evaluation import taught
from kcurate.reward import pair_tasks
from kcurate.train import random_model
from kcurate.train.stage import TrainConfig

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
