"""The best side of each built-in family beside the data sheet and beside plain kernels of the same traffic.

    python benchmarks/roofline.py --gpu 0 [--time]   measures; needs a GPU of MODELS
    python benchmarks/roofline.py                    writes the page, the plots and docs/data/roofline.csv

`pairs/roofline.json` has the least bytes and operations of each family, with their reasons; the best side is
the fastest of the confirmed verdicts on that GPU. With `--gpu`, a kernel that only reads and writes as many
bytes as the family must is timed (the ceiling), each sample after a flush of the L2 cache, and with `--time`
the best side too, in the same run. Appends a row a family to docs/data/GPU/roofline.jsonl; run again, it goes
on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate import roofline
from kcurate.core import resources, store
from kcurate.errors import KcurateError
from kcurate.records import Candidate, Language, Outcome, Verdict
from kcurate.roofline import GATHER, LeastWork

if TYPE_CHECKING:
    from kcurate.backends.base import Grid, KernelArg, Memory

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "data"
PAGE = ROOT / "docs" / "results" / "roofline.md"
LISTED = DATA / "roofline.csv"
MODEL = "nvidia-h200"
# By GPU model: the name in the page; the stems of its verdicts; the folder of its data.
MODELS = {"H100": ("nvidia-h100-80gb-hbm3", DATA / "nvidia-h100"), "H200": (MODEL, DATA / MODEL)}
LOW = 0.25
SAMPLES = 15
VECTORS = 8
MIX = (
    f"#define VECTORS {VECTORS}"
    + """
extern "C" __global__ void __launch_bounds__(256)
    mix(const float4* from, long long reads, float4* to, long long writes)
{
    // A thread reads and writes its share of VECTORS vectors; all loads are under way before the first store.
    const int mine_r = (int)(reads * VECTORS / (reads + writes) + 1), mine_w = VECTORS + 1 - mine_r;
    const long long block_r = blockIdx.x * 256ll * mine_r, block_w = blockIdx.x * 256ll * mine_w;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
    for (int k = 0; k < VECTORS + 1; k++) {
        const long long i = block_r + k * 256 + threadIdx.x;
        if (k < mine_r && i < reads) {
            const float4 v = __ldcs(from + i);
            sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
        }
    }
#pragma unroll
    for (int k = 0; k < VECTORS + 1; k++) {
        const long long i = block_w + k * 256 + threadIdx.x;
        if (k < mine_w && i < writes)
            __stcs(to + i, sum);
    }
    if (mine_w == 0 && sum.x == 1e30f)
        to[0] = sum;
}
"""
)


@dataclass(frozen=True)
class Best:
    """The fastest confirmed side of a family, and what the family needs at least."""

    family: str
    pair: str
    candidate: Candidate
    us: float
    device: str
    least: LeastWork

    @property
    def limits(self) -> Mapping[str, float]:
        """The least time in microseconds, by what limits it."""
        return self.least.times_us(roofline.on_file()["peaks"][self.device])

    @property
    def limit(self) -> str:
        """What takes longest at the data sheet's rates."""
        return max(self.limits, key=lambda name: self.limits[name])

    @property
    def share(self) -> float:
        """The part of the data sheet's rate that the side reaches."""
        return self.limits[self.limit] / self.us

    @property
    def kind(self) -> str:
        """`memory`, `arithmetic` or `gather`."""
        return {"bytes": "memory", GATHER: GATHER}.get(self.limit, "arithmetic")


def best_sides(model: str, language: Language | None = None) -> list[Best]:
    """One a family with a confirmed verdict on that GPU model, by name; of all languages, or of one."""
    found: dict[str, Best] = {}
    for folder in store.find_candidates(resources.pairs_dir()):
        path = folder / "verdicts" / f"{model}.json"
        if not path.exists():
            continue
        candidate, verdict = store.read_candidate(folder), store.read_json(path, Verdict)
        fast, family = verdict.fast, candidate.family
        if language not in (None, candidate.fast.language):
            continue
        if verdict.outcome is not Outcome.CONFIRMED or fast is None or fast.median_us is None:
            continue
        if family not in found or fast.median_us < found[family].us:
            least = roofline.least_work(family, candidate.problem) if candidate.problem else None
            if least is None:
                raise SystemExit(f"{family}: not in pairs/roofline.json")
            name = f"{candidate.domain}/{folder.name}"
            found[family] = Best(family, name, candidate, fast.median_us, verdict.environment.device, least)
    return [found[family] for family in sorted(found)]


def judged(pair: str, model: str) -> bool:
    """Whether a built-in pair has a verdict of that GPU model."""
    return (resources.pairs_dir() / pair / "verdicts" / f"{model}.json").exists()


def of_device(name: str) -> tuple[str, Path]:
    """The stem of the verdicts and the folder of the data of a GPU, by its name, such as `NVIDIA H200`."""
    for short, found in MODELS.items():
        if short in name:
            return found
    raise SystemExit(f"{name}: none of {', '.join(MODELS)}")


def standing() -> dict[str, dict[str, Best]]:
    """By GPU and family, the best sides; without families of which another GPU's best awaits this GPU."""
    found = {gpu: {one.family: one for one in best_sides(model)} for gpu, (model, _) in MODELS.items()}
    return {
        gpu: {
            family: one
            for family, one in best.items()
            if all(judged(there[family].pair, MODELS[gpu][0]) for there in found.values() if family in there)
        }
        for gpu, best in found.items()
    }


def mix(read_bytes: int, written_bytes: int, source: Memory, to: Memory) -> tuple[Grid, list[KernelArg]]:
    """The launch of `mix` that reads and writes so many bytes, rounded up to vectors of 16."""
    from kcurate.backends.base import Grid, Pointer, ScalarValue

    reads, writes = -(-read_bytes // 16), -(-written_bytes // 16)
    share = reads * VECTORS // (reads + writes) + 1
    threads = max(-(-reads // share), -(-writes // (VECTORS + 1 - share)) if writes else 0)
    numbers = [ScalarValue(count.to_bytes(8, "little")) for count in (reads, writes)]
    args: list[KernelArg] = [Pointer(source), numbers[0], Pointer(to), numbers[1]]
    return Grid((-(-threads // 256), 1, 1), (256, 1, 1)), args


class Ceiling:
    """Plain kernels of any mix of reads and writes on one GPU."""

    def __init__(self, gpu: int, largest_bytes: int) -> None:
        from corpus_libraries import Bench

        from kcurate.backends import open_compiler
        from kcurate.backends.base import Compiled, EntryPoint

        self.bench = Bench(gpu)
        compiled = open_compiler("cuda").compile(MIX, [EntryPoint("mix")])
        assert isinstance(compiled, Compiled), compiled
        self._module = self.bench.device.load(compiled)
        self._memory = [self.bench.device.allocate(largest_bytes) for _ in range(2)]
        for memory in self._memory:
            self.bench.device.fill(memory, 0, largest_bytes, b"\x11")

    def us(self, read_bytes: int, written_bytes: int) -> float:
        """The median time of a kernel that reads and writes so many bytes."""
        from kcurate.backends.base import EntryPoint

        grid, args = mix(read_bytes, written_bytes, *self._memory)

        def run() -> None:
            self.bench.device.launch(self._module, EntryPoint("mix"), grid, args)

        self.bench.sample(run)
        return statistics.median(self.bench.sample(run) for _ in range(SAMPLES))

    def side_us(self, candidate: Candidate) -> float:
        """The median time of the fast side, as the judge's samples are taken."""
        from corpus_libraries import restorer

        assert candidate.problem is not None
        prepared, inputs = self.bench.load(candidate.problem, candidate.fast)
        restore = restorer(self.bench, prepared)
        for _ in range(3):
            self.bench.sample(prepared.run, restore)
        middle = statistics.median(self.bench.sample(prepared.run, restore) for _ in range(SAMPLES))
        prepared.close()
        inputs.close()
        return middle


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """The last row of each family."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["family"]: row for row in map(json.loads, lines)}


def measure(gpu: int, timed: bool) -> None:
    """Append a row for each family of this GPU's best sides that its file does not have as it is now."""
    from kcurate.backends import open_device

    with contextlib.closing(open_device("cuda", gpu)) as device:
        model, folder = of_device(device.environment().device)
    path, best = folder / "roofline.jsonl", best_sides(model)
    known = rows_of(path)
    ceiling = Ceiling(gpu, max(max(one.least.read_bytes, one.least.written_bytes) for one in best) + 4096)
    environment = ceiling.bench.device.environment()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as out:
        for one in best:
            row: dict[str, Any] = {
                "family": one.family,
                "pair": one.pair,
                "side": store.side_key(one.candidate, "fast"),
                "read_bytes": one.least.read_bytes,
                "written_bytes": one.least.written_bytes,
            }
            old = known.get(one.family, {})
            if all(old.get(key) == value for key, value in row.items()) and (not timed or "side_us" in old):
                continue
            row["ceiling_us"] = ceiling.us(one.least.read_bytes, one.least.written_bytes)
            try:
                row |= {"side_us": ceiling.side_us(one.candidate)} if timed else {}
            except KcurateError as error:
                print(f"{one.pair}: {error}", flush=True)
            row |= {"device": environment.device, "device_uuid": environment.device_uuid}
            row["driver"] = environment.driver
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(one.family, f"{row['ceiling_us']:.1f} us", flush=True)


def of_ceiling(one: Best, row: Mapping[str, Any] | None) -> float | None:
    """The share of the ceiling; None for a family that is not limited by bytes, or has no row."""
    if one.kind != "memory" or row is None or row["read_bytes"] != one.least.read_bytes:
        return None
    same = row.get("side") in (None, store.side_key(one.candidate, "fast"))
    return float(row["ceiling_us"]) / float(row.get("side_us", one.us) if same else one.us)


def summary(gpu: str, best: Sequence[Best], rows: Mapping[str, Any]) -> Iterator[str]:
    """A line for all, and one for each kind of limit."""
    yield f"| {gpu}: limit | families | share (median) | of the ceiling (median) | under a quarter |"
    yield "|---|---:|---:|---:|---:|"
    for kind in ("all", "memory", "arithmetic", GATHER):
        some = [one for one in best if kind in ("all", one.kind)]
        found = (of_ceiling(one, rows.get(one.family)) for one in some)
        ceilings = [share for share in found if share is not None]
        middle = f"{statistics.median(ceilings):.0%}" if ceilings and kind == "memory" else ""
        low = sum(one.share < LOW for one in some)
        share = statistics.median(one.share for one in some)
        yield f"| {kind} | {len(some)} | {share:.0%} | {middle} | {low} |"


HEAD = """# Each family's best side beside the roofline

`python benchmarks/roofline.py` writes this page, which has the medians and the families under a quarter, and
[all families](../data/roofline.csv). [pairs/roofline.json](../../pairs/roofline.json) has each family's least
bytes (each distinct one that must move, once), its least operations at the headline size, and the reason of
those under a quarter; the time is that of its fastest confirmed side, on an NVIDIA H100 (80 GB HBM3) and on
an H200. A second reader checked both against the problems and oracles.

- *least*: the longest of the times that bytes and operations take at the data sheet's rates (3.35 and
  4.8 TB/s; 989 TFLOP/s bf16, 1979 fp8 and int8, 67 fp32, dense). `alu` counts simple 32-bit operations,
  128 lanes a multiprocessor and cycle, as many as are issued; `special` exponentials, roots and the like, 16.
- *share*: least over measured.
- *of the ceiling*: the time of a kernel that only reads and writes as many bytes, over the side's; for
  families limited by bytes.
- `gather` families read or write at places that the data name. Each such access counts as a whole sector of
  32 bytes, even where a cache answers; so a share may exceed 100%.

![Shares by family on an H100](../data/nvidia-h100/roofline.svg)

![Shares by family on an H200](../data/nvidia-h200/roofline.svg)

"""


def cells(best: Best | None) -> str:
    """Time and share of the data sheet, as cells of a table."""
    return " | |" if best is None else f" {best.us:.1f} | {best.share:.0%} |"


def page(best: Mapping[str, Mapping[str, Best]], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The medians, who is under a quarter and why, as Markdown; both arguments are by GPU and family."""
    parts = [HEAD.rstrip("\n")]
    for gpu, sides in best.items():
        parts += ["", *summary(gpu, list(sides.values()), rows[gpu])]
        left_out = max(map(len, best.values())) - len(sides)
        if left_out:
            parts += [
                "",
                f"{left_out} families are left out: their newest sides, which replaced slower ones, await an",
            ]
            parts += [f"{gpu}. So these medians are those of the sides that needed it least."]
    columns = "".join(f" {gpu}, us | share |" for gpu in best)
    parts += ["", f"| family | limit |{columns}", f"|---|---|{'---:|' * 2 * len(best)}"]
    lowest: dict[str, Best] = {}
    for one in (one for sides in best.values() for one in sides.values()):
        if one.family not in lowest or one.share < lowest[one.family].share:
            lowest[one.family] = one
    ordered = sorted(lowest.values(), key=lambda one: (one.kind == GATHER, one.share))
    low = [one for one in ordered if one.share < LOW]
    for one in low:
        shown = "".join(cells(sides.get(one.family)) for sides in best.values())
        parts.append(f"| [{one.family}](../../pairs/{one.pair}/) | {one.limit} |{shown}")
    return "\n".join(parts) + "\n"


def listed(best: Mapping[str, Mapping[str, Best]], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Every family on every GPU as CSV: times in microseconds, shares of 1."""
    lines = ["gpu,family,pair,limit,least_us,best_us,share,of_ceiling"]
    for gpu, sides in best.items():
        for side in sides.values():
            ceiling = of_ceiling(side, rows[gpu].get(side.family))
            numbers = f"{side.limits[side.limit]:.1f},{side.us:.1f},{side.share:.3f}"
            shown = "" if ceiling is None else f"{ceiling:.3f}"
            lines.append(f"{gpu},{side.family},{side.pair},{side.limit},{numbers},{shown}")
    return "\n".join(lines) + "\n"


def plot(best: Sequence[Best]) -> str:
    """SVG: one dot a family at its share of the data sheet, a row for each limit, a bar at the median."""
    names = ("memory", "arithmetic", GATHER)
    colours = ("#36c", "#c63", "#393")
    width, left, row, top = 760, 100, 110, 30

    def x(share: float) -> float:
        return left + (width - left - 20) * min(share, 1.2) / 1.2

    bottom = top + row * len(names)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{bottom + 40}' "
        "font-family='sans-serif' font-size='12'>",
        f"<rect width='{width}' height='{bottom + 40}' fill='white'/>",
        f"<text x='{left}' y='18'>best side of each family: share of what the data sheet allows</text>",
    ]
    for tick in range(0, 121, 20):
        at = x(tick / 100)
        parts.append(f"<line x1='{at:.1f}' x2='{at:.1f}' y1='{top}' y2='{bottom}' stroke='#ddd'/>")
        parts.append(f"<text x='{at:.1f}' y='{bottom + 18}' text-anchor='middle'>{tick}%</text>")
    for place, (name, colour) in enumerate(zip(names, colours, strict=True)):
        some = sorted((one for one in best if one.kind == name), key=lambda one: one.share)
        y = top + row * place
        parts.append(f"<text x='8' y='{y + row // 2}'>{name}</text>")
        parts.append(f"<text x='8' y='{y + row // 2 + 15}' fill='#888'>{len(some)} families</text>")
        for number, one in enumerate(some):
            where = y + 12 + (number * 37) % (row - 24)
            parts.append(
                f"<circle cx='{x(one.share):.1f}' cy='{where}' r='3.5' fill='{colour}' fill-opacity='0.55'>"
                f"<title>{one.family}: {one.share:.0%}</title></circle>"
            )
        middle = x(statistics.median(one.share for one in some))
        ends = f"x1='{middle:.1f}' x2='{middle:.1f}' y1='{y + 4}' y2='{y + row - 4}'"
        parts.append(f"<line {ends} stroke='#333' stroke-width='2'/>")
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    if options.gpu is not None:
        measure(options.gpu, options.time)
        return
    best, rows = standing(), {gpu: rows_of(folder / "roofline.jsonl") for gpu, (_, folder) in MODELS.items()}
    PAGE.write_text(page(best, rows))
    LISTED.write_text(listed(best, rows))
    for gpu, sides in best.items():
        (MODELS[gpu][1] / "roofline.svg").write_text(plot(list(sides.values())))
        print("\n".join(summary(gpu, list(sides.values()), rows[gpu])))


if __name__ == "__main__":
    main()
