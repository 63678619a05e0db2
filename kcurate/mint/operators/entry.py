"""How an entry of the table is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcurate.mint.graph import Fold, How, Kind, Operator, Property, signature


def operator(
    name: str,
    kind: Kind,
    shapes: str,
    torch: str,
    result: str,
    *words: str,
    needs: dict[str, tuple[Property, ...]] | None = None,
    **others: Any,
) -> Operator:
    """An operator; `shapes` as in `graph.signature`, `needs` by parameter, `others` as in `Operator`."""
    parameters, out = signature(shapes)
    wanted = needs or {}
    parameters = tuple(replace(parameter, needs=wanted.get(parameter.name, ())) for parameter in parameters)
    for field in ("domain", "to"):
        if field in others:
            others[field] = tuple(others[field].split())
    others.setdefault("centers", any("s / " in part.term for part in others.get("folds", ())))
    return Operator(name, kind, parameters, out, torch, result, words, **others)


def fold(name: str, how: How, over: str, term: str, **others: Any) -> Fold:
    """A fold over axes that are separated by spaces."""
    return Fold(name, how, tuple(over.split()), term, **others)
