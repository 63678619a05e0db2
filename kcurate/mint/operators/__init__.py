"""The table of operators; an operator is one entry.

| module | owns |
|---|---|
| `entry` | how an entry is written |
| `pointwise` | pointwise, broadcasts, quantisation |
| `rows` | reductions, normalisations, softmax, scans, sorts, losses over rows |
| `places` | gathers, scatters, pooling, masks of attention |
| `products` | matrix products, convolutions, attention |
| `gradients` | backward passes |
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.mint.graph import Operator
from kcurate.mint.operators import gradients, places, pointwise, products, rows

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for table in (pointwise, rows, places, products, gradients)
    for operator in table.TABLE
}
