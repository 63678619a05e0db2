"""Which families are held out: the one split of published datasets, training runs, evaluations and servers.

`pairs/split.json` names the side of every family that ships, in groups: families are grouped if code of one
contains a function of the other, and a group is never divided. It holds a hash of itself, so nobody moves
a family by chance. A family that it does not name gets the side of those that it shares code with; without
any, a hash of the family that sorts first in its group decides, so that what is added moves nothing. A
composed graph is a family by itself, whatever code graphs share: every kernel of an operator looks alike.
Families of this form that compute what KernelBench asks for (`KERNELBENCH`) are always held out.

A dataset has exactly this split (`assign`). A run holds out the same families, and more in the order of their
hashes if it asks for a larger share of its tasks (`split`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kcurate.core import codec, own_files, resources
from kcurate.errors import InputError, OptionError
from kcurate.problem.lessons import together
from kcurate.reward.task import Task

Side = Literal["train", "test"]
# An unnamed group of more families shares a core, such as a matrix product: it would dominate a test split.
MANY = 6
KERNELBENCH = "kernelbench-"
# The seed of the file, and the default of training runs.
SEED = 42
FILE = "split.json"


class _FamilyGroup(NamedTuple):
    """A group of families, its side (None: it shares code with both), and the hash that orders it."""

    side: Side | None
    hashed: float
    families: frozenset[str]


class Frozen(NamedTuple):
    """The content of the file: the side of each family, and the share of unnamed groups that are for
    tests."""

    sides: Mapping[str, Side]
    test_share: float
    salt: str


@cache
def frozen(path: Path | None = None) -> Frozen:
    """The split that ships.

    Raises:
        InputError: the file is not the one that was released.
    """
    path = path or resources.pairs_dir() / FILE
    try:
        data = json.loads(own_files.read(path))
        stated = data.pop("sha256")
        sides: dict[str, Side] = {family: "train" for group in data["train"] for family in group}
        sides |= {family: "test" for group in data["test"] for family in group}
        content = Frozen(sides, data["unlisted"]["test_share"], data["unlisted"]["salt"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _edited(path) from error
    if digest(data) != stated:
        raise _edited(path)
    return content


def digest(data: Mapping[str, Any]) -> str:
    """The hash that the file holds of everything else in it."""
    return hashlib.sha256(codec.canonical_json(data)).hexdigest()


def _edited(path: Path) -> InputError:
    return InputError(
        "this split was edited: rows would move between train and test",
        where=str(path),
        hint="restore the file of the release",
    )


def assign(rows: Iterable[Mapping[str, Any]]) -> dict[str, Side | None]:
    """The split of each row of `pairs`; None: its family shares code with both."""
    families = {}
    codes = set()
    for row in rows:
        families[row["id"]] = row["family"]
        written = not _is_composed(row["id"], row["family"])
        codes |= {(row["family"], row[side] if written else None) for side in ("slow_code", "fast_code")}
    sides = {family: group.side for group in _ordered_groups(codes, SEED) for family in group.families}
    split_of = {key: sides[family] for key, family in families.items()}
    if "train" not in split_of.values() and frozen().sides.keys().isdisjoint(sides):
        return dict.fromkeys(split_of, "train")  # strangers' few families, all for tests by chance
    return split_of


def split(
    tasks: Sequence[Task], held_out_share: float, seed: int = SEED
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training and held-out tasks: those of a dataset's test split, and at least `held_out_share` (0 to 1).

    A share of 0 holds out nothing. The same input and seed give the same split. With two or more groups of
    families neither part is empty, unless the share is 0.

    Raises:
        OptionError: the share is not in [0, 1).
    """
    check_held_out(held_out_share)
    codes = (
        (task.family, None if _is_composed(task.id, task.family) else side.code)
        for task in tasks
        for side in (task.template.slow, task.template.fast)
    )
    groups = _ordered_groups(codes, seed)
    held_out = _first(groups, Counter(task.family for task in tasks), held_out_share)
    dropped = {family for group in groups if group.side is None for family in group.families}
    return (
        tuple(task for task in tasks if task.family not in held_out | dropped),
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


def _first(groups: Sequence[_FamilyGroup], tasks_of: Mapping[str, int], share: float) -> set[str]:
    """The families for tests, then the next groups up to this share of the tasks; never all groups."""
    if not share or len(groups) < 2:
        return set()
    sizes = {group: sum(tasks_of[family] for family in group.families) for group in groups}
    target, count, held_out = share * sum(sizes.values()), 0, set[str]()
    for group in groups[:-1]:
        # Beyond the tests, taken if that brings the count nearer to the target.
        is_nearer = count + sizes[group] / 2 <= target and group.hashed < 1.0
        if group.side == "test" or (group.side == "train" and is_nearer):
            held_out |= group.families
            count += sizes[group]
    return held_out or set(min(sizes.items(), key=lambda item: item[1])[0].families)


def _is_composed(name: str, family: str) -> bool:
    """Whether a pair is of a composed graph."""
    return name.startswith("minted/") or family.startswith(KERNELBENCH)


def _ordered_groups(codes: Iterable[tuple[str, str | None]], seed: int) -> list[_FamilyGroup]:
    """The groups of families that stay together: those for tests first, then by their hashes.

    `codes`: a family and one side's code, None if it is composed.
    """
    listed = set(codes)
    written = {(family, code) for family, code in listed if code is not None}
    composed = {family for family, code in listed if code is None} - {family for family, _ in written}
    joined = [*(frozenset({family}) for family in composed), *{*together(written).values()}]
    ordered = [
        _FamilyGroup(side, 1.0 if side is None or len(part) > MANY else _hashed(part, seed), part)
        for group in joined
        for side, part in _with_sides(group)
    ]
    return sorted(ordered, key=lambda item: (item.side != "test", item.hashed, min(item.families)))


def _with_sides(group: frozenset[str]) -> Iterator[tuple[Side | None, frozenset[str]]]:
    """A group with its side, or its parts: named families keep theirs, and the others cannot join both."""
    side_of = frozen().sides
    train, test = (frozenset(f for f in group if side_of.get(f) == side) for side in ("train", "test"))
    if train and test:
        yield "train", train
        yield "test", test
        if others := group - train - test:
            yield None, others
    elif train or test:
        yield "train" if train else "test", group
    else:
        is_test = len(group) <= MANY and _hashed(group, SEED) < frozen().test_share
        yield "test" if is_test or min(group).startswith(KERNELBENCH) else "train", group


def _hashed(group: frozenset[str], seed: int) -> float:
    salt = frozen().salt if seed == SEED else f"{frozen().salt} {seed}"
    return int.from_bytes(hashlib.sha256(f"{salt} {min(group)}".encode()).digest()[:8], "big") / 2**64
