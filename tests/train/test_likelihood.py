"""How likely a model finds known answers, and attention in packed rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcurate.local_models.settings import ModelSettings


def test_an_answer_by_heart_is_likelier_than_another_whatever_the_batch(model: Path, pairs: Path) -> None:
    from tiny import tasks

    from benchmarks.likelihood import likelihoods

    known = next(task for task in tasks(pairs) if task.family == "scale")
    other = next(task for task in tasks(pairs) if task.family == "square")
    assert known.answer and other.answer
    rows = [(known.prompt, known.answer), (known.prompt, other.answer), (other.prompt, known.answer)]
    together = likelihoods(ModelSettings(str(model)), None, rows)
    alone = likelihoods(ModelSettings(str(model)), None, rows, batch_tokens=1)
    assert [found.tokens for found in together] == [found.tokens for found in alone]
    assert [found.nats for found in together] == pytest.approx([found.nats for found in alone], rel=1e-3)
    assert together[0].a_token < 0.1 < together[1].a_token
    assert together[2].a_token < 0.1


def logits(model: Any, ids: list[int], **options: Any) -> Any:
    import torch

    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False, **options).logits[0]


def test_packed_rows_do_not_see_each_other(model: Path) -> None:
    import torch

    from kcurate.local_models import weights

    packed = weights.load_model(ModelSettings(str(model), attention="packed"), trainable=True).eval()
    assert packed.config._attn_implementation == "packed"
    rows = [[5, 6, 7, 8, 9], [10, 11, 12], [5, 6, 7, 8, 9, 10, 11]]
    ids = [token for row in rows for token in row]
    positions = torch.tensor([[place for row in rows for place in range(len(row))]])
    bounds = torch.tensor([0, 5, 8, 15], dtype=torch.int32)
    together = logits(packed, ids, position_ids=positions, cu_seq_lens_q=bounds, max_length_q=7)
    apart = torch.cat([logits(packed, row) for row in rows])
    assert torch.allclose(together, apart, atol=1e-5)
    assert not torch.allclose(together, logits(packed, ids), atol=1e-3)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_step_of_sampling_is_what_sdpa_gives(groups: int) -> None:
    """With padding at the left of some rows; `groups` heads share keys and values."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from kcurate.local_models.packed import attention

    class Module:
        num_key_value_groups = groups
        is_causal = True

    torch.manual_seed(1)
    query = torch.randn(3, 2 * groups, 1, 16)
    key, value = torch.randn(2, 3, 2, 9, 16)
    mask = torch.ones(3, 1, 1, 9, dtype=torch.bool)
    mask[1, ..., :4] = False
    for seen in (mask, None):
        expected, _ = sdpa_attention_forward(Module(), query, key, value, seen, scaling=0.3)
        step, _ = attention(Module(), query, key, value, seen, scaling=0.3)
        assert step.shape == expected.shape == (3, 1, 2 * groups, 16)
        assert torch.allclose(step, expected, atol=1e-5)


def test_a_packed_model_samples_what_sdpa_samples(model: Path) -> None:
    """Also with a static cache into which the prompts go in parts."""
    import torch

    from kcurate.local_models import weights

    ids = torch.tensor([[5, 6, 7, 8, 9], [1, 1, 10, 11, 12]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    static = {"cache_implementation": "static", "disable_compile": True}
    replies = []
    for name, options in (("sdpa", {}), ("packed", {}), ("packed", static | {"prefill_chunk_size": 2})):
        sampling = weights.load_model(ModelSettings(str(model), attention=name))
        assert sampling.config._attn_implementation == name
        replies.append(
            sampling.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False, **options)
        )
    assert torch.equal(replies[0], replies[1])
    assert torch.equal(replies[0], replies[2])


def test_spans_say_which_keys_a_row_has() -> None:
    import torch

    from kcurate.local_models.packed import spans

    seen = torch.tensor([[0, 0, 1, 1, 0], [1, 1, 1, 1, 0]], dtype=torch.bool)
    queries, begins, counts = spans(seen, 2).tolist()
    assert queries == [0, 1, 2, 3, 4]
    assert begins == [2, 7, 10, 15, 20]
    assert counts[:-1] == [2, 2, 4, 4]


@pytest.mark.gpu
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_step_of_sampling_on_a_gpu_is_what_sdpa_gives(groups: int) -> None:
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from kcurate.local_models.packed import attention, spans

    class Module:
        num_key_value_groups = groups
        is_causal = True

    torch.manual_seed(1)
    kind: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    query = torch.randn(3, 2 * groups, 1, 128, **kind)
    key, value = torch.randn(2, 3, 2, 700, 128, **kind)
    seen = torch.ones(3, 700, dtype=torch.bool, device="cuda")
    seen[1, :301] = False
    seen[:, 650:] = False
    value[:, :, 650:] = float("nan")  # what a static cache has not been given yet
    step, _ = attention(Module(), query, key, value, spans(seen, 2), scaling=0.1)
    key, value = key[:, :, :650], value[:, :, :650]
    expected, _ = sdpa_attention_forward(Module(), query, key, value, seen[:, None, None, :650], scaling=0.1)
    assert step.shape == expected.shape
    assert torch.allclose(step, expected, atol=0.02)


@pytest.mark.gpu
def test_packed_rows_on_a_gpu_are_those_of_a_cpu_and_have_gradients() -> None:
    import torch

    from kcurate.local_models.packed import attention

    class Module:
        num_key_value_groups = 2

    torch.manual_seed(1)
    lengths = [700, 3, 129]
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    heads = [torch.randn(1, count, sum(lengths), 64, dtype=torch.bfloat16) for count in (4, 2, 2)]
    found = []
    for device in ("cpu", "cuda"):
        sides = [side.detach().to(device).requires_grad_() for side in heads]
        rows, _ = attention(
            Module(), *sides, None, cu_seq_lens_q=bounds.to(device), max_length_q=max(lengths)
        )
        rows.float().square().sum().backward()
        found.append([rows.detach().cpu(), *(side.grad.cpu() for side in sides)])
    for cpu, gpu in zip(*found, strict=True):
        assert (cpu - gpu).float().norm() < 0.02 * cpu.float().norm()
