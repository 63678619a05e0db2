"""The dataset card, generated from the data: `README.md` with the Hub's metadata on top, and its plot.

Every number in it is computed from the rows; rows that were not timed have no speedup.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from kcurate import __version__
from kcurate.core.licence_texts import canonical
from kcurate.cuda_source.compare.containment import HELD, MIN_TOKENS, RUN
from kcurate.dataset import contamination, licences, parquet, tuning
from kcurate.dataset.columns import TEXTS, WORDS
from kcurate.dataset.gates import Gates

PLOT = "speedups.svg"
# The size and margins of the plot, in pixels.
WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 15, 34, 48
# Each bin is a factor of sqrt(2): wide enough for a hundred pairs, narrow enough to separate 1.2 from 1.6.
BINS_PER_DOUBLING = 2
NAME = "Slow/fast CUDA kernel pairs"
# The SPDX ids among the Hub's licences, in its spelling.
_HUB_LICENCES = frozenset(
    (
        *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear", "bsl-1.0", "cc0-1.0"),
        *("cc-by-4.0", "cc-by-sa-4.0", "ncsa", "isc", "artistic-2.0", "epl-2.0", "mpl-2.0", "gpl-2.0"),
        *("gpl-3.0", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "unlicense", "wtfpl", "zlib"),
    )
)
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**9, "100K<n<1M"))

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Content:
    """The content that the card describes: rows of `pairs` by split, data files, gates, version.

    `taught`: the rows of `sft`, one of which becomes the example. `lengths`: by config, the `text_bytes` of
    its rows.
    """

    splits: Mapping[str, Rows]
    files: Sequence[parquet.DataFile]
    gates: Gates
    version: str
    taught: Rows = ()
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """Every row of `pairs`."""
        return [row for rows in self.splits.values() for row in rows]

    @property
    def configs(self) -> Mapping[str, Sequence[parquet.DataFile]]:
        """The files of each config."""
        by_config: dict[str, list[parquet.DataFile]] = {}
        for file in self.files:
            by_config.setdefault(file.config, []).append(file)
        return by_config


def render(content: Content) -> str:
    """The whole card."""
    import yaml

    front = yaml.safe_dump(metadata(content), sort_keys=False, allow_unicode=True, width=110)
    body = "\n".join(_body(content))
    return f"---\n{front}---\n\n{body.rstrip()}\n"


def metadata(content: Content) -> dict[str, Any]:
    """The Hub's metadata: licences, size, tags, and the file of each config and split."""
    rows = content.rows
    names = sorted({hub_licence(row["license"]) for row in rows})
    licence: dict[str, Any] = {"license": names[0] if len(names) == 1 else names}
    if "other" in names:
        licence = {"license": "other", "license_name": "per-row", "license_link": "ATTRIBUTION.md"}
    configs = [
        {
            "config_name": config,
            **({"default": True} if config == "pairs" else {}),
            "data_files": [{"split": file.split, "path": file.path} for file in files],
        }
        for config, files in content.configs.items()
    ]
    # What `datasets` holds each split against when it has loaded it.
    infos = [
        {
            "config_name": config,
            "splits": [
                {"name": file.split, "num_bytes": file.table_bytes, "num_examples": file.rows}
                for file in files
            ],
            "download_size": sum(len(file.content) for file in files),
            "dataset_size": sum(file.table_bytes for file in files),
        }
        for config, files in content.configs.items()
    ]
    return {
        "pretty_name": NAME,
        **licence,
        "language": ["code"],
        "task_categories": ["text-generation"],
        "size_categories": [next(name for limit, name in _SIZES if len(rows) < limit)],
        "tags": ["cuda", "gpu", "kernels", "code", "performance", "kcurate"],
        "configs": configs,
        "dataset_info": infos,
    }


def hub_licence(license: str | None) -> str:
    """The Hub's name of a licence; `other` if it has none."""
    name = (canonical(license) or "").lower() if license else ""
    return name if name in _HUB_LICENCES else "other"


def _body(content: Content) -> Iterator[str]:
    rows = content.rows
    yield f"# {NAME}\n"
    yield TEXTS["lead"]
    yield f"Version {content.version}; `CHANGES.md` says what changed since the last one.\n"
    yield from _configs(content)
    yield from _example(content)
    yield from _columns(content)
    yield from _lengths(content.lengths)
    yield from _counts(rows)
    yield from _speedups(rows)
    yield TEXTS["protocol"]
    yield from _checked(content)
    yield from _rights(rows)
    yield TEXTS["limits"]
    yield TEXTS["reproduce"].format(
        kcurate=__version__, name=NAME, version=content.version, rows=len(content.rows)
    )


def _configs(content: Content) -> Iterator[str]:
    yield "| config | holds | rows |"
    yield "|---|---|---|"
    for config, files in content.configs.items():
        counted = ", ".join(f"{file.split} {file.rows}" for file in files)
        yield f"| `{config}` | {TEXTS['configs'][config]} | {counted} |"
    yield ""
    if set(content.configs) == {"pairs", "tasks"}:
        unconfirmed = TEXTS["unconfirmed"]
        yield f"{unconfirmed[0].upper()}{unconfirmed[1:]}.\n"
    yield TEXTS["apart"].format(held=HELD, run=RUN, least=MIN_TOKENS)
    yield TEXTS["prompts"]


def _example(content: Content) -> Iterator[str]:
    """How to load the dataset, and its shortest row for training."""
    config = "sft" if content.taught else "pairs"
    yield "```python\nfrom datasets import load_dataset\n"
    yield f'rows = load_dataset("USER/NAME", "{config}", split="train")  # or the path of this folder'
    yield "print(rows[0])\n```\n"
    if content.taught:
        yield TEXTS["recipe"]
        row = min(
            content.taught,
            key=lambda lesson: (len(f"{lesson['prompt']}{lesson['completion']}"), lesson["id"]),
        )
        yield f"A row of `sft`, `{row['id']}`, without the rules that every prompt begins with:\n"
        for message in (row["prompt"][1], row["completion"][0]):
            yield f"~~~text\n{message['content'].rstrip()}\n~~~\n"


def _columns(content: Content) -> Iterator[str]:
    yield "## Columns\n"
    yield "| column | of | holds |"
    yield "|---|---|---|"
    holders: dict[str, list[str]] = {}
    for config, files in content.configs.items():
        for column in files[0].columns:
            holders.setdefault(column, []).append(config)
    for column, configs in holders.items():
        yield f"| `{column}` | {', '.join(configs)} | {WORDS[column]} |"
    yield ""


def _lengths(lengths: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Sizes in tokens, from bytes: a build needs no tokenizer."""
    if not lengths:
        return
    yield "## Length\n"
    yield f"| config | millions of tokens: {' | '.join(tuning.BYTES)} | median of a row | over 4k | over 8k |"
    yield f"|---|{'---:|' * (len(tuning.BYTES) + 3)}"
    for config, sizes in lengths.items():
        millions = " | ".join(f"{sum(sizes) / each / 1e6:.2f}" for each in tuning.BYTES.values())
        median = statistics.median(sizes) / min(tuning.BYTES.values())
        over = (sum(size > limit * tuning.LEAST_BYTES for size in sizes) for limit in (4096, 8192))
        yield f"| `{config}` | {millions} | {median:.0f} | {' | '.join(map(str, over))} |"
    means = " or ".join(f"{each:.2f} ({name})" for name, each in tuning.BYTES.items())
    yield TEXTS["lengths"].format(means=means, least=tuning.LEAST_BYTES)


def _counts(rows: Rows) -> Iterator[str]:
    families = {row["family"] for row in rows}
    outcomes = Counter(row["outcome"] for row in rows)
    yield "## What is in it\n"
    yield f"{len(rows)} pairs in {len(families)} families: " + ", ".join(
        f"{count} {outcome}" for outcome, count in sorted(outcomes.items())
    )
    yield ""
    yield from _table("domain", Counter(row["domain"] for row in rows), rows, lambda row: [row["domain"]])
    techniques = Counter(name for row in rows for name in row["techniques"])
    yield from _table("technique", techniques, rows, lambda row: row["techniques"])


def _table(title: str, counts: Counter[str], rows: Rows, names: Any) -> Iterator[str]:
    if not counts:
        return
    yield f"| {title} | pairs | median speedup |"
    yield "|---|---:|---:|"
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        ratios = _ratios(row for row in rows if name in names(row))
        yield f"| {name} | {count} | {f'{statistics.median(ratios):.2f}' if ratios else ''} |"
    yield ""


def _ratios(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    return [row["speedup"] for row in rows if row["outcome"] == "confirmed" and row["speedup"]]


def _speedups(rows: Rows) -> Iterator[str]:
    yield "## Speedups\n"
    confirmed = [row for row in rows if row["outcome"] == "confirmed" and row["speedup"]]
    if not confirmed:
        yield "No row carries a measured speedup.\n"
        return
    ratios = sorted(_ratios(confirmed))
    devices = Counter(row["device"] for row in confirmed)
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    yield f"![Histogram of the speedups of the confirmed pairs]({PLOT})\n"
    yield f"Median {quartiles[1]:.2f}, middle half {quartiles[0]:.2f} to {quartiles[2]:.2f}, lowest"
    yield f"{ratios[0]:.2f}, highest {ratios[-1]:.2f}. `speedup` is slow time over fast time;"
    yield "`speedup_low` and `speedup_high` are its bootstrap interval.\n"
    yield (
        "Measured on: " + ", ".join(f"{device} ({count})" for device, count in sorted(devices.items())) + "."
    )
    yield from _elsewhere(confirmed)
    for name in ("driver", "compiler"):
        yield (
            f"{name.capitalize()}: " + ", ".join(sorted({row[name] for row in confirmed if row[name]})) + "."
        )
    yield ""


def _elsewhere(confirmed: Rows) -> Iterator[str]:
    """A sentence for each other GPU that judged some of these rows (`devices`)."""
    others: dict[str, list[tuple[Mapping[str, Any], float]]] = {}
    for row in confirmed:
        for on_device in row["devices"]:
            if on_device["device"] != row["device"] and on_device["speedup"]:
                others.setdefault(on_device["device"], []).append(
                    (on_device, on_device["speedup"] / row["speedup"])
                )
    for device, ratios in sorted(others.items()):
        outcomes = Counter(on_device["outcome"] for on_device, _ in ratios)
        counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        share = statistics.median(ratio for _, ratio in ratios)
        yield f"Also on {device} (`devices`): {counted}; speedups there are {share:.2f} of these (median)."


def _checked(content: Content) -> Iterator[str]:
    gates = content.gates
    yield TEXTS["checked"]
    refused = Counter(refusal.reason for refusal in gates.refusals)
    listed = ", ".join(f"{reason} {count}" for reason, count in sorted(refused.items()))
    yield f"Refused: {listed or 'none'}; `gates.json` gives the reason for each row.\n"
    if not gates.sets:
        yield "Not compared with any evaluation set (`kcurate build --against`).\n"
        return
    yield f"| evaluation set | items | largest share of shared {contamination.NGRAM}-grams | refused |"
    yield "|---|---:|---:|---:|"
    for evaluation_set in gates.sets:
        shares = [overlap.share for overlap in gates.overlaps if overlap.set == evaluation_set.name]
        bad = sum(share >= contamination.LIMIT for share in shares)
        items, largest = len(evaluation_set.items), max(shares, default=0.0)
        yield f"| {evaluation_set.name} | {items} | {largest:.1%} | {bad} |"
    yield ""
    yield TEXTS["overlaps"]


def _rights(rows: Rows) -> Iterator[str]:
    yield "## Licences\n"
    yield "Each row has the licence of its source in `license`; `ATTRIBUTION.md` names the sources.\n"
    yield "| licence | rows |"
    yield "|---|---:|"
    for name, count in sorted(Counter(row["license"] or licences.UNKNOWN for row in rows).items()):
        yield f"| {name} | {count} |"
    yield ""


def speedups_svg(speedups: Sequence[float], title: str) -> str:
    """A histogram of speedups (slow time over fast time, all above 0) on a logarithmic axis."""
    bins = Counter(math.floor(math.log2(ratio) * BINS_PER_DOUBLING) for ratio in speedups)
    first, last = (min(bins), max(bins)) if bins else (0, 1)
    tallest = max(bins.values(), default=1)
    step = (WIDTH - _LEFT - _RIGHT) / (last - first + 1)
    floor, room = HEIGHT - _BOTTOM, HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#24292f"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for tick in _ticks(tallest):
        y = floor - room * tick / tallest
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    for edge in range(first, last + 2):
        x = _LEFT + step * (edge - first)
        if edge <= last and bins[edge]:
            tall = room * bins[edge] / tallest
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{floor - tall:.1f}" width="{step - 2:.1f}" height="{tall:.1f}" '
                f'fill="#0969da"><title>{_factor(edge)} to {_factor(edge + 1)}: {bins[edge]}</title></rect>'
            )
        if edge % BINS_PER_DOUBLING == 0:
            parts.append(f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{_factor(edge)}</text>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">speedup '
        "(time of the slow side over time of the fast side)</text></svg>\n"
    )
    return "\n".join(parts)


def _factor(edge: int) -> str:
    return f"{2 ** (edge / BINS_PER_DOUBLING):.3g}x"


def _ticks(tallest: int) -> list[int]:
    step = max(1, 10 ** math.floor(math.log10(max(1, tallest))))
    step = step if tallest / step >= 3 else max(1, step // 5 if step >= 5 else 1)
    return list(range(0, tallest + 1, step))
