"""Options to a backend and the numbers of its GPUs."""

from __future__ import annotations

import pytest

from kcurate import backends
from kcurate.backends.choice import Place, choose, gpu_numbers
from kcurate.errors import InputError, MissingDependencyError


def test_lists_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "gpu_count", lambda: 3)
    assert choose("auto") == Place("cuda", (0,))
    assert choose("cuda", "1, 0,1") == Place("cuda", (1, 0))
    assert choose("cuda", "all") == Place("cuda", (0, 1, 2))
    with pytest.raises(MissingDependencyError, match=r"--gpu 0,3: there is no GPU 3 \(3 here"):
        choose("cuda", "0,3")


@pytest.mark.parametrize("text", ["first", "", "0,", "-1", "1.5"])
def test_what_is_no_list_of_gpus_is_said_with_its_option(text: str) -> None:
    with pytest.raises(InputError, match="--judge-gpus: not a list of GPUs"):
        gpu_numbers(text, where="--judge-gpus")


def test_without_a_gpu_the_emulator_is_chosen_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "gpu_count", lambda: 0)
    said: list[str] = []
    assert choose("auto", note=said.append) == Place("emulator", (0,))
    assert said == ["no GPU here: the emulator checks correctness, and no times are taken"]
    assert choose("emulator", note=said.append) == Place("emulator", (0,))
    assert len(said) == 1, "whoever asks for the emulator knows"
    for backend, gpu in (("cuda", "auto"), ("cuda", "0"), ("auto", "0"), ("auto", "all")):
        with pytest.raises(
            MissingDependencyError, match=r"there is no GPU here .*--backend emulator needs none"
        ):
            choose(backend, gpu)


def test_a_gpu_is_not_named_where_none_is_chosen() -> None:
    with pytest.raises(InputError, match="--gpu 7: the emulator uses no GPU"):
        choose("emulator", "7")
    with pytest.raises(InputError, match="--gpu 0: a Ray cluster chooses"):
        choose("auto", "0", ray="auto")


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(InputError, match="unknown backend 'tpu'"):
        choose("tpu")
