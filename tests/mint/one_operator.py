"""Graphs of one operator."""

from __future__ import annotations

from kcurate.mint.composer import FORMS, Composer, PartialGraph, main_parameter
from kcurate.mint.graph import OPERATORS, Graph


def single(name: str, dtype: str = "float32", seed: int = 0) -> Graph:
    """A graph of one operator, its operands fresh."""
    operator, composer = OPERATORS[name], Composer(seed)
    main = main_parameter(operator)
    for shape in (("rows",), *FORMS.values()):
        draft = PartialGraph(dtype, sizes=[str(size) for size in shape] if main else [])
        first = draft.add_input(main, shape, None, operator.kind).name if main else None
        chosen = [first if parameter is main else None for parameter in operator.parameters]
        if composer._bound(draft, operator, chosen) is not None:
            return composer._finished(draft)
    raise ValueError(f"no shape fits {name}")
