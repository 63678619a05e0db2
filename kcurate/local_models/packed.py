"""The attention `packed`: several rows in one sequence, which do not attend to each other.

On a GPU it is flash attention over rows of different lengths, without a mask; on a CPU each row by itself. A
batch that is not packed gets transformers' `sdpa`, but a step of sampling reads the cache in place, and on a
GPU only the keys that a row has. Not covered: packing (the trainer).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "packed"


def register() -> None:
    """Make the attention known to transformers by its name."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)


def mask(*args: Any, attention_mask: Any = None, **options: Any) -> Any:
    """The mask for transformers: None for packed rows, `spans` for a sampling step on a GPU, otherwise that
    of `sdpa`.
    """
    if attention_mask is None:
        return None
    if not attention_mask.is_cuda or options["q_length"] > 1:
        return sdpa_mask(*args, attention_mask=attention_mask, **options)
    # To ask whether a mask is needed would wait for the GPU in every step.
    seen = sdpa_mask(*args, attention_mask=attention_mask, **options | {"allow_is_causal_skip": False})
    return spans(seen[:, 0, 0], options["config"].num_key_value_heads)


def spans(seen: Any, heads: int) -> Any:
    """The range of keys of each row in a cache, as flash attention takes it.

    `seen`: [rows, keys], True in one run of a row (its prompt is padded on the left). Returns int32
    [3, rows * heads + 1]: where each query begins, where the keys of a row and head begin in the flattened
    cache, and how many there are (the last count is padding).
    """
    rows, keys = seen.shape
    queries = torch.arange(rows * heads + 1, device=seen.device)
    first = torch.nn.functional.pad(seen.int().argmax(1).repeat_interleave(heads), (0, 1))
    count = torch.nn.functional.pad(seen.sum(1).repeat_interleave(heads), (0, 1))
    return torch.stack([queries, queries * keys + first, count]).int()


def attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    cu_seq_lens_q: Any = None,
    max_length_q: int | None = None,
    **options: Any,
) -> tuple[Any, None]:
    """Causal attention in each row; `query`, `key`, `value`: [1, heads, tokens, width of a head].

    `cu_seq_lens_q`: where each row begins, and the number of tokens; None: not packed. Returns
    [1, tokens, heads, width], and no weights, as transformers expects.
    """
    if cu_seq_lens_q is None and query.shape[2] == 1:
        return _next_token(query, key, value, attention_mask, scaling), None
    if cu_seq_lens_q is None:
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    if query.is_cuda:
        query, key, value = (heads[0].transpose(0, 1) for heads in (query, key, value))
        bounds, longest = cu_seq_lens_q.int(), int(max_length_q or query.shape[0])
        return _flash(query, key, value, bounds, bounds, longest, scaling, causal=True)[None], None
    groups = getattr(module, "num_key_value_groups", 1)
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    rows = [
        scaled_dot_product_attention(
            query[:, :, begin:end],
            key[:, :, begin:end],
            value[:, :, begin:end],
            is_causal=True,
            scale=scaling,
        )
        for begin, end in pairwise(cu_seq_lens_q.tolist())
    ]
    return torch.cat(rows, dim=2).transpose(1, 2), None


def _next_token(query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None) -> Any:
    """Attention of one token per row: heads that share keys become queries of one head.

    With a mask, `sdpa` would copy the keys and values once for each of them, which is most of a step's time;
    with `spans` flash attention skips the padding of each row.
    """
    rows, heads, _, width = query.shape
    shared = heads // key.shape[1]
    if attention_mask is not None and attention_mask.dim() == 2:
        queries, begins, counts = attention_mask
        seen = _flash(
            query.reshape(-1, shared, width),
            key.reshape(-1, 1, width),
            value.reshape(-1, 1, width),
            queries,
            begins,
            1,
            scaling,
            keys=key.shape[2],
            counts=counts[:-1],
        )
    else:
        grouped = query.reshape(rows, key.shape[1], shared, width)
        seen = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return seen.reshape(rows, 1, heads, width)


def _flash(
    query: Any,
    key: Any,
    value: Any,
    queries: Any,
    begins: Any,
    longest: int,
    scaling: float | None,
    *,
    causal: bool = False,
    keys: int | None = None,
    counts: Any = None,
) -> Any:
    """torch's flash attention over rows of different lengths; all sides are [tokens, heads, width].

    `queries`, `begins`: int32 [rows + 1], where the queries and the keys of each row begin. `longest`:
    queries of the longest row; `keys`: its keys, if they are more. `counts`: int32 [rows], the number of
    valid keys of a row. torch.nn.attention.varlen, the public way, has no `counts` in torch 2.11.
    """
    return torch.ops.aten._flash_attention_forward(
        query, key, value, queries, begins, longest, keys or longest, 0.0, causal, False,
        scale=scaling, seqused_k=counts,
    )[0]  # fmt: skip
