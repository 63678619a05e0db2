"""Can token counts tell sides that rules made from those that people wrote?

    python benchmarks/rule_sides.py DATASET

DATASET is a folder that `make dataset TREES=DIR` built. Pairs of `sft` with a side that rules made stand
against those without, of the same families; then all pairs that rules or templates made against all others.
A logistic regression on token counts (names as one token; logarithms, scaled) is trained on four fifths of
the families and tested on the last fifth, five times. Prints the area under the curve (0.5: it cannot tell)
for slow and fast sides together, and for slow ones alone, each with a 95% interval (families drawn anew), and
the tokens that tell most.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from kcurate.cuda_source.compare.similarity import is_name
from kcurate.cuda_source.text.normalise import normalised_tokens
from kcurate.hub.published_rows import read_rows

FOLDS, PENALTY, STEPS, RATE, LEAST_DOCUMENTS = 5, 1.0, 300, 0.1, 5
DRAWS, SEED, SHOWN = 1000, 1, 12


def counted(code: str) -> Counter[bytes]:
    """Token counts; names of the code's own are one token."""
    tokens = normalised_tokens(code.encode())
    return Counter(b"name" if is_name(tokens, at) else tokens[at] for at in range(len(tokens)))


def curve_area(scores: np.ndarray, labels: np.ndarray) -> float:
    """The area under the ROC curve, by ranks; ties count half."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    made = int(labels.sum())
    return float((ranks[labels == 1].mean() - (made + 1) / 2) / (len(labels) - made))


def learned(data: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights of a logistic regression, both labels with the same weight in all; the last is the offset."""
    data = np.hstack([data, np.ones((len(data), 1))])
    share = np.where(labels == 1, 0.5 / max(labels.sum(), 1), 0.5 / max((1 - labels).sum(), 1))
    weights, first, second = np.zeros(data.shape[1]), 0.0, 0.0
    for step in range(1, STEPS + 1):  # Adam
        found = 1 / (1 + np.exp(-np.clip(data @ weights, -30, 30)))
        slope = data.T @ (share * (found - labels)) + PENALTY / len(labels) * weights
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def told(texts: Sequence[str], labels: Sequence[int], families: Sequence[str]) -> str:
    """The area over all families, each scored by what was trained without it, and what tells; one line."""
    bags = [counted(text) for text in texts]
    seen = Counter(token for bag in bags for token in bag)
    tokens = sorted(token for token, number in seen.items() if number >= LEAST_DOCUMENTS)
    data = np.log1p(np.array([[bag[token] for token in tokens] for bag in bags], dtype=float))
    names = sorted(set(families))
    of_family = np.array([names.index(name) for name in families])
    marks, scores = np.array(labels), np.zeros(len(texts))
    for fold in range(FOLDS):
        train = of_family % FOLDS != fold
        mean, spread = data[train].mean(0), data[train].std(0) + 1e-6
        scaled = (data - mean) / spread
        weights = learned(scaled[train], marks[train])
        scores[~train] = scaled[~train] @ weights[:-1] + weights[-1]
    low, high = interval(scores, marks, [np.flatnonzero(of_family == i) for i in range(len(names))])
    weights = learned((data - data.mean(0)) / (data.std(0) + 1e-6), marks)[:-1]
    most = [f"{tokens[i].decode()} {weights[i]:+.1f}" for i in np.argsort(-abs(weights))[:SHOWN]]
    return f"{curve_area(scores, marks):.3f} ({low:.2f} to {high:.2f}); {'  '.join(most)}"


def interval(scores: np.ndarray, marks: np.ndarray, rows_of: Sequence[np.ndarray]) -> tuple[float, float]:
    """95% of the areas over families that are drawn with replacement; `rows_of`: the rows of each."""
    numbers, areas = np.random.default_rng(SEED), list[float]()
    while len(areas) < DRAWS:
        drawn = np.concatenate([rows_of[i] for i in numbers.integers(len(rows_of), size=len(rows_of))])
        if 0 < marks[drawn].sum() < len(drawn):
            areas.append(curve_area(scores[drawn], marks[drawn]))
    low, high = np.percentile(areas, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Print both areas, of all languages and of CUDA alone."""
    folder = Path(sys.argv[1])
    taught = {one["id"] for some in read_rows(folder, "sft").values() for one in some}
    pairs = [one for some in read_rows(folder).values() for one in some if one["id"] in taught]
    # No hand-written pair is given in Triton, which is a tell by itself.
    in_cuda = [row for row in pairs if row["slow_language"] == row["fast_language"] == "cuda"]
    both = (("", pairs), (", both sides in CUDA", in_cuda))
    for words, some in both:
        report(f"by rules{words}", of_shared_families([row for row in some if row["origin"] != "minted"]))
    for words, some in both:
        report(f"by rules or templates{words}", some)


def of_shared_families(pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pairs of families that have both kinds."""
    by_rule = {row["family"] for row in pairs if row["rules"]}
    both = by_rule & {row["family"] for row in pairs if not row["rules"]}
    return [row for row in pairs if row["family"] in both]


def report(made_how: str, pairs: Sequence[dict[str, Any]]) -> None:
    """Print what tells the sides of these pairs."""
    made = [int(bool(row["rules"])) for row in pairs]
    count = len({row["family"] for row in pairs})
    print(f"{sum(made)} pairs {made_how} and {len(made) - sum(made)} by hand, of {count} families")
    for name, columns in (("slow and fast", ("slow_code", "fast_code")), ("slow alone", ("slow_code",))):
        texts = [row[column] for row in pairs for column in columns]
        labels = [label for label in made for _ in columns]
        families = [row["family"] for row in pairs for _ in columns]
        print(f"  {name}: {told(texts, labels, families)}")


if __name__ == "__main__":
    main()
