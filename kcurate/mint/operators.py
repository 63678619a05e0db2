"""The table of operators, read from `operators.toml`: an operator is one entry of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kcurate.core import resources
from kcurate.mint.graph import Fold, Operator, signature


def _operator(name: str, entry: dict[str, Any]) -> Operator:
    """The operator of an entry: `shapes` as in `graph.signature`, `needs` by parameter."""
    needs, (parameters, out) = entry.pop("needs", {}), signature(entry.pop("shapes"))
    folds = tuple(Fold(**{**fold, "over": tuple(fold["over"].split())}) for fold in entry.pop("folds", ()))
    return Operator(
        name=name,
        parameters=tuple(replace(param, needs=tuple(needs.get(param.name, ()))) for param in parameters),
        out=out,
        words=tuple(entry.pop("words")),
        folds=folds,
        attributes={key: tuple(values) for key, values in entry.pop("attributes", {}).items()},
        gives=tuple(entry.pop("gives", ())),
        domain=tuple(entry.pop("domain", "").split()),
        to=tuple(entry.pop("to", "").split()),
        centers=any("s / " in fold.term for fold in folds),
        **entry,
    )


OPERATORS: Mapping[str, Operator] = {
    name: _operator(name, entry) for name, entry in resources.table("kcurate.mint", "operators.toml").items()
}
