"""Which families are held out: the one split of published datasets, training runs, evaluations and servers.

A family is never in both parts. Families are grouped if code of one contains a function of the other, and a
group is never divided. A hash of the seed and of the family that sorts first in a group gives the group a
place from 0 to 1, and the groups with the lowest places are held out. A group of more than `MANY` families
(which share a core, such as a matrix product) is always for training: it would dominate a test split.

A dataset holds out all groups below a threshold (`assign`), so that a pair keeps its split when the dataset
grows. A run holds out a share of its tasks (`split`). With the seed `SEED` both use the same order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcurate.errors import OptionError
from kcurate.problem.lessons import together
from kcurate.reward.task import Task

MANY = 6
# Families of this form compute what a task of KernelBench computes: they are held out first.
KERNELBENCH = "kernelbench-"
# The seed of published datasets, and the default of training runs.
SEED = 42
# The place of a group that is never held out, and of one that always is; others lie between.
_LAST, _FIRST = 1.0, -1.0


def assign(rows: Iterable[Mapping[str, Any]], test_share: float) -> dict[str, str]:
    """The split of each row of `pairs`: id to `train` or `test`."""
    families = {}
    codes = set()
    for row in rows:
        families[row["id"]] = row["family"]
        codes |= {(row["family"], row["slow_code"]), (row["family"], row["fast_code"])}
    places = {family: place for place, group in _placed(codes, SEED) for family in group}
    split_of = {key: "test" if places[family] < test_share else "train" for key, family in families.items()}
    if "train" not in split_of.values():
        return dict.fromkeys(split_of, "train")
    return split_of


def split(
    tasks: Sequence[Task], held_out_share: float, seed: int = SEED
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training and held-out tasks, about `held_out_share` (0 to 1) of the tasks held out.

    The same input and seed give the same split. With two or more groups of families neither part is empty,
    unless the share is 0.

    Raises:
        OptionError: the share is not in [0, 1).
    """
    check_held_out(held_out_share)
    codes = ((task.family, side.code) for task in tasks for side in (task.template.slow, task.template.fast))
    held_out = _first(_placed(codes, seed), Counter(task.family for task in tasks), held_out_share)
    return (
        tuple(task for task in tasks if task.family not in held_out),
        tuple(task for task in tasks if task.family in held_out),
    )


def check_held_out(share: float) -> None:
    """Refuse a held-out share of tasks that leaves none to train on, or is not a share.

    Raises:
        OptionError: it is not in [0, 1).
    """
    if not 0 <= share < 1:
        hint = "at least 0 and below 1, such as 0.2"
        raise OptionError("not a share of the tasks", where=f"held out: {share}", hint=hint)


def _first(
    placed: Sequence[tuple[float, frozenset[str]]], tasks_of: Mapping[str, int], share: float
) -> set[str]:
    """The families of the first groups that together have about this share of the tasks; never all groups."""
    if not share or len(placed) < 2:
        return set()
    sizes = {group: sum(tasks_of[family] for family in group) for _, group in placed}
    target, count, held_out = share * sum(sizes.values()), 0, set[str]()
    for place, group in placed[:-1]:
        # Taken if that brings the count nearer to the target.
        if place < _LAST and count + sizes[group] / 2 <= target:
            held_out |= group
            count += sizes[group]
    return held_out or set(min(sizes.items(), key=lambda item: item[1])[0])


def _placed(codes: Iterable[tuple[str, str]], seed: int) -> list[tuple[float, frozenset[str]]]:
    """Groups of families that stay together, each with its place in [0, 1], in order."""
    return sorted(
        ((_place(group, seed), group) for group in {*together(codes).values()}),
        key=lambda item: (item[0], min(item[1])),
    )


def _place(group: frozenset[str], seed: int) -> float:
    if any(family.startswith(KERNELBENCH) for family in group):
        return _FIRST
    if len(group) > MANY:
        return _LAST
    salt = "split" if seed == SEED else f"split {seed}"
    return int.from_bytes(hashlib.sha256(f"{salt} {min(group)}".encode()).digest()[:8], "big") / 2**64
