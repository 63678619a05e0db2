"""The attention `packed`: several rows in one sequence, none of which sees another.

On a GPU it is flash attention over rows of different lengths, without a mask; on a CPU each row by itself. A
batch that is not packed gets transformers' `sdpa`, but a step of sampling reads the cache as it lies. Not
covered: who packs (the trainer).
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
    """No mask for packed rows, which the trainer passes without one; else that of `sdpa`."""
    return None if attention_mask is None else sdpa_mask(*args, attention_mask=attention_mask, **options)


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
    groups = getattr(module, "num_key_value_groups", 1)
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    if not query.is_cuda:
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

    def jagged(heads: Any) -> Any:
        tokens, offsets = heads[0].transpose(0, 1).contiguous(), cu_seq_lens_q.long()
        nested = torch.nested.nested_tensor_from_jagged(
            tokens, offsets, min_seqlen=1, max_seqlen=max_length_q
        )
        return nested.transpose(1, 2)

    together = scaled_dot_product_attention(
        jagged(query), jagged(key), jagged(value), is_causal=True, scale=scaling
    )
    return together.transpose(1, 2).values()[None], None


def _next_token(query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None) -> Any:
    """Attention of one token a row: heads that share keys become queries of one head.

    With a mask, `sdpa` would copy the keys and values once for each of them, which is most of a step's time.
    """
    rows, heads, _, width = query.shape
    grouped = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
    seen = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return seen.reshape(rows, 1, heads, width)
