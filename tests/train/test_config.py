"""Settings of training: recipes by name, files and `--set` over them, and every mistake named."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.reward.schemes import SCHEMES, make
from kcurate.train.config import recipes, resolve, to_toml


def test_recipe_kernelcompare_has_the_numbers_of_the_paper() -> None:
    found = resolve(recipe="kernelcompare")
    assert found.model.name == "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"
    assert (found.lora.r, found.lora.alpha, found.lora.dropout) == (32, 64, 0.1)
    assert found.lora.targets == ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    sft = found.sft
    assert (sft.learning_rate, sft.batch, sft.max_tokens, sft.epochs, sft.warmup_steps) == (
        2e-4,
        4,
        4096,
        8,
        100,
    )
    assert sft.optimizer == "adamw_torch"
    assert (found.tasks.source, found.tasks.held_out, found.tasks.split_seed) == ("kernelbench", 0.2, 42)
    assert found.grpo.beta > 0, "without it no reference is kept"
    assert found.reward.values == {"compiles": 0.4, "correct": 0.4, "faster": 0.2}


def test_defaults_without_a_file_pay_for_speed() -> None:
    from kcurate.train.settings import TrainSettings

    named, plain = resolve(), TrainSettings()
    assert (named.recipe, named.reward.scheme) == (plain.recipe, plain.reward.scheme) == ("pairs", "pairs")
    assert (named.sft, named.lora, named.grpo) == (plain.sft, plain.lora, plain.grpo)
    assert make("pairs", named.reward.values).keywords == signature_defaults(SCHEMES["pairs"])


def signature_defaults(scheme: Callable[..., object]) -> dict[str, object]:
    found = inspect.signature(scheme).parameters.values()
    return {one.name: one.default for one in found if one.kind is one.KEYWORD_ONLY}


@pytest.mark.parametrize("name", recipes())
def test_recipes_name_rewards_that_exist(name: str) -> None:
    found = resolve(recipe=name)
    make(found.reward.scheme, found.reward.values)
    assert found.recipe == name
    assert found.tasks.source == ("kernelbench" if name == "kernelcompare" else "pairs")


def test_recipes_differ_in_reward_or_curriculum() -> None:
    names = set(recipes()) - {"tiny", "modern"}  # which reward as the default does
    found = {(str(one.reward), str(one.curriculum)) for one in (resolve(recipe=name) for name in names)}
    assert len(found) == len(names) == 5


def test_later_layers_win(tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text('recipe = "continuous"\n[sft]\nepochs = 3\nbatch = 8\n')
    found = resolve(file=file, sets=["sft.batch=2"], options={"model": {"name": "tiny"}})
    assert (found.recipe, found.sft.epochs, found.sft.batch) == ("continuous", 3, 2)
    assert (found.model.name, found.reward.scheme) == ("tiny", "continuous")
    assert found.lora.r == 32


def test_another_reward_does_not_keep_the_numbers_of_the_recipe() -> None:
    found = resolve(sets=["reward.scheme=staged-tiers"])
    assert found.reward.values == {}
    make(found.reward.scheme, found.reward.values)


@pytest.mark.parametrize("name", recipes())
def test_resolved_settings_are_read_back_the_same(name: str, tmp_path: Path) -> None:
    found = resolve(recipe=name, sets=['model.name="a b\\"c"', "judge.gpus=[1, 2]", "sft.trl={packing=true}"])
    file = tmp_path / "config.toml"
    file.write_text(to_toml(found))
    assert resolve(file=file) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sft.epoch=2", "did you mean sft.epochs?"),
        ("epochs=2", "did you mean sft.epochs?"),
        ("stf.epochs=2", "did you mean sft?"),
        ("sft.epochs=many", "sft.epochs must be a number"),
        ("sft.batch=1.5", "sft.batch must be an integer"),
        ("sft.batch=true", "sft.batch must be an integer"),
        ("sft.batch=0", "sft.batch must be at least 1"),
        ("sft.learning_rate=-1", "sft.learning_rate must be at least 0"),
        ("tasks.held_out=1", "tasks.held_out must be at least 0 and below 1"),
        ("grpo.generations=1", "grpo.generations must be at least 2"),
        ("grpo.vllm=on", "one of off, colocate, server"),
        ("grpo.vllm=on", "--set grpo.vllm=on: grpo.vllm must be one of"),
        ("sft=3", "sft must be a table (such as sft.learning_rate)"),
        ("sft.trl=3", "sft.trl must be a table of strings, numbers and lists, not 3"),
        ("sft.trl={day=2020-01-01}", "sft.trl must be a table of strings, numbers and lists"),
        ("judge.gpus=[0, true]", "judge.gpus must be an integer, not True"),
        ("model.name=3", "model.name must be a string, not 3"),
        ("sft.packing=1", "sft.packing must be true or false, not 1"),
        ("sft.epochs", "not KEY=VALUE"),
        ("sft.max_length=1", "unknown key 'sft.max_length'"),
        ("judge.ahead=true", "unknown key 'judge.ahead'"),
    ],
)
def test_wrong_settings_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(sets=[text])
    assert said in str(caught.value)


def test_keys_may_have_dashes_and_one_value_stands_for_a_list() -> None:
    found = resolve(sets=["sft.learning-rate=1", "judge.gpus=3", "sft.trl={eval-steps=2}"])
    assert (found.sft.learning_rate, found.judge.gpus) == (1, (3,))
    assert found.sft.trl == {"eval-steps": 2}, "the trainer's own names are not ours to change"


def test_a_wrong_value_is_named_with_the_layer_it_stands_in(tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text("[sft]\nepochs = 'three'\n")
    with pytest.raises(InputError, match=re.escape(f"{file}: sft.epochs must be a number, not 'three'")):
        resolve(file=file, sets=["sft.epochs=3"])


def test_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean staged-tiers"):
        resolve(recipe="staged-tier")


@pytest.mark.parametrize("text", ["[sft\n", "\xff"])
def test_broken_file_is_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="not TOML"):
        resolve(file=file)
    with pytest.raises(InputError, match="cannot read"):
        resolve(file=tmp_path / "none.toml")


def test_the_order_of_settings_says_nothing() -> None:
    sets = ["reward.values.doubling=0.4", "reward.scheme=continuous"]
    for given in (sets, sets[::-1]):
        assert resolve(sets=given).reward.values["doubling"] == 0.4
    assert resolve(sets=["sft.epochs=2", "sft.epochs=3"]).sft.epochs == 3, "the later of the same"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recipe=sqd", "--recipe NAME"),
        ("grpo.top_p=2", "grpo.top_p must be above 0 and at most 1"),
        ("sft.epochs=inf", "sft.epochs must be a finite number"),
        ("seed=5000000000", "seed must be below"),
    ],
)
def test_settings_that_would_do_nothing_or_fail_later_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        resolve(sets=[text])
