"""The table of the built-in pairs, `pairs/README.md`: `python -m tools.gallery pairs/README.md`.

Generated from the pairs and their verdict files; a test checks that the file is up to date. Not covered:
making verdicts (`kcurate.validate`), a page to browse pairs (`kcurate.report`).
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kcurate import roofline
from kcurate.core import resources, store
from kcurate.lookup.show import with_worth
from kcurate.records import Candidate, Outcome, SideReport, Verdict
from kcurate.verdicts import standing

HEAD = """# The built-in pairs

`<domain>/<name>/{pair.json,slow.cu,fast.cu}`: the same computation written slow and written fast, with the
problem and the launch plans as data. `verdicts/<gpu-model>.json` beside them is the judge's verdict, with
every timing sample and the environment. Pairs of one family are rungs of a ladder: one problem at several
levels of optimisation.

`make docs` generates this page from those files.
"""
COLUMNS = """- *speedup*: slow time over fast time, with the 98% bootstrap interval.
- *of copy*: the bandwidth that the fast side reaches if it moves once what its family must move
  (`roofline.json`), as a share of the copy bandwidth measured on the same GPU. Small for kernels limited by
  arithmetic, latency or dependent launches.
- *registers*: per thread, of the slow and the fast side's kernel that uses most.
"""
# A fast side counts as memory-bound if moving its buffers once takes at least this share of its time.
MEMORY_BOUND = 0.25
NEAR_COPY = 0.8

# A pair, its standing verdict, and what counts on each other device.
Entry = tuple[Candidate, Verdict | None, list[Verdict]]


def entries(root: Path) -> list[Entry]:
    """Every pair below `root` with its verdicts, sorted by domain, family and id."""
    found = []
    for folder in store.find_candidates(root):
        candidate = store.read_candidate(folder)
        verdicts = standing.current(candidate, store.read_verdicts(folder))
        best = standing.best(verdicts)
        found.append((candidate, best, standing.elsewhere(verdicts, best)))
    return sorted(found, key=lambda entry: (entry[0].domain, entry[0].family, entry[0].id))


def render(root: Path) -> str:
    """The whole page as Markdown."""
    listed = entries(root)
    devices = sorted({one.environment.device for _, _, others in listed for one in others})
    parts = [HEAD, "\n".join(_summary(listed)), "", COLUMNS]
    domains: dict[str, list[Entry]] = defaultdict(list)
    for entry in listed:
        domains[entry[0].domain].append(entry)
    for domain, inside in domains.items():
        parts += [f"## {domain}\n", "\n".join(_table(inside, devices)), ""]
    return "\n".join(parts).rstrip() + "\n"


def _summary(listed: Sequence[Entry]) -> Iterator[str]:
    confirmed = [(pair, v) for pair, v, _ in listed if v is not None and v.outcome is Outcome.CONFIRMED]
    families = Counter(pair.family for pair, _, _ in listed)
    techniques = {name for pair, _, _ in listed for name in pair.techniques}
    domains = {pair.domain for pair, _, _ in listed}
    yield f"- {len(listed)} pairs in {len(domains)} domains, {len(families)} families,"
    yield f"  {sum(count >= 3 for count in families.values())} ladders of three pairs or more;"
    yield f"  {len(techniques)} techniques."
    if waiting := sum(verdict is None for _, verdict, _ in listed):
        yield f"- {waiting} without a verdict: they await a GPU."
    if confirmed:
        devices = sorted({v.environment.device for _, v in confirmed})
        ratios = [v.speedup.ratio for _, v in confirmed if v.speedup]
        lows = [v.speedup.low for _, v in confirmed if v.speedup]
        median = statistics.median(ratios)
        yield f"- {len(confirmed)} confirmed on {', '.join(devices)}: median speedup {median:.2f},"
        yield f"  lowest {min(lows):.2f} (lower end of its interval)."
        yield from _elsewhere(listed)
        shares = list(_fast_shares(confirmed).values())
        bound = [share for share in shares if share >= MEMORY_BOUND]
        near = sum(share >= NEAR_COPY for share in bound)
        yield f"- {len(bound)} different fast sides reach {MEMORY_BOUND:.0%} of the measured copy bandwidth"
        yield f"  (taken as memory-bound); {near} of them reach {NEAR_COPY:.0%}."


def _elsewhere(listed: Sequence[Entry]) -> Iterator[str]:
    """The pairs that were judged on another device too: a line a device."""
    found: dict[str, list[Verdict]] = defaultdict(list)
    for _, _, others in listed:
        for one in others:
            found[one.environment.device].append(one)
    for device, verdicts in sorted(found.items()):
        ratios = [one.speedup.ratio for one in verdicts if one.speedup]
        confirmed = sum(one.outcome is Outcome.CONFIRMED for one in verdicts)
        median = f": median speedup {statistics.median(ratios):.2f}" if ratios else ""
        yield f"- {confirmed} of {len(verdicts)} confirmed on {device}{median}."


def _fast_shares(confirmed: Sequence[tuple[Candidate, Verdict]]) -> Mapping[str, float]:
    """The share of the copy bandwidth of every distinct fast side, by binary."""
    shares: dict[str, float] = {}
    for pair, verdict in confirmed:
        share = _copy_share(pair, verdict)
        binary = verdict.fast.binary_sha256 if verdict.fast else None
        if binary is not None and share is not None:
            shares[binary] = max(share, shares.get(binary, 0.0))
    return shares


def _copy_share(pair: Candidate, verdict: Verdict) -> float | None:
    """The fast side's share of the copy bandwidth, from the least bytes that are on file for its family."""
    least = roofline.least_work(pair.family, pair.problem) if pair.problem else None
    copied = verdict.environment.details.get("copy_bytes_per_s")
    took_us = verdict.fast.median_us if verdict.fast else None
    if least is None or took_us is None or not isinstance(copied, int | float):
        return verdict.environment.copy_fraction
    return least.moved_bytes / (took_us * 1e-6) / copied


def _table(inside: Sequence[Entry], devices: Sequence[str]) -> Iterator[str]:
    names = ["pair", "family", "techniques", "speedup", "of copy", "registers"]
    yield f"| {' | '.join([*names, *(f'on {device}' for device in devices)])} |"
    yield f"|---|---|---|{'---:|' * (3 + len(devices))}"
    for pair, verdict, others in inside:
        name = pair.id.rpartition("/")[2]
        cells = [f"[{name}]({pair.id}/)", pair.family, with_worth(pair), *_measured(pair, verdict)]
        found = {one.environment.device: one for one in others}
        cells += [_ratio(found.get(device)) for device in devices]
        yield f"| {' | '.join(cells)} |"


def _measured(pair: Candidate, verdict: Verdict | None) -> tuple[str, str, str]:
    if verdict is None or verdict.speedup is None:
        return (str(verdict.outcome) if verdict else "awaits a GPU", "", "")
    share = _copy_share(pair, verdict)
    registers = f"{_registers(verdict.slow)} / {_registers(verdict.fast)}"
    shown = f"{share:.0%}" if share is not None else ""
    return _ratio(verdict), shown, registers


def _ratio(verdict: Verdict | None) -> str:
    """The speedup with its interval; an outcome that claims none is named."""
    if verdict is None or verdict.speedup is None:
        return str(verdict.outcome) if verdict else ""
    speedup, outcome = verdict.speedup, verdict.outcome
    named = "" if outcome is Outcome.CONFIRMED else f"{outcome}: "
    return f"{named}{speedup.ratio:.2f} ({speedup.low:.2f} to {speedup.high:.2f})"


def _registers(report: SideReport | None) -> str:
    counts = [r.registers for r in report.resources if r.registers is not None] if report else []
    return str(max(counts)) if counts else "?"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(resources.pairs_dir()), encoding="utf-8")
