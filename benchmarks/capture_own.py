"""Recording programs of our own on a GPU: is their output the same, what does it cost, what was recorded?

    python benchmarks/capture_own.py --out DIR [--repeats 5] [--launches 10000] [--nvcc nvcc] [--arch native]

Needs a GPU and nvcc. Builds the programs in `tests/capture/programs/`, runs each with and without the
recorder in turn, and checks standard output, exit code, and the forms, changed buffers and variables in the
record against what the programs are known to do. Prints the median wall seconds of both and their ratio, for
the launches given, and the cost of one more launch. Writes the raw records of a short run to DIR/PROGRAM/,
without contents over 64 KiB, and DIR/summary.json. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.capture import building, raw

PROGRAMS = Path(__file__).resolve().parent.parent / "tests" / "capture" / "programs"
KEPT_BYTES = 64 << 10
SHORT = 100


@dataclass(frozen=True)
class Program:
    """A program and what is known of it, of a run with `SHORT` launches.

    `forms`: by demangled kernel, how often each form is launched. `changed`: for the first form of each
    kernel, which buffers change (None: not looked at). `symbols`: variables of that form, in hexadecimal.
    """

    code: int
    output: str
    forms: Mapping[str, tuple[int, ...]]
    changed: Mapping[str, tuple[bool | None, ...]]
    symbols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    needs_module: bool = False


KNOWN = {
    "runtime": Program(
        3,
        "sum 499375.0, odd 50\n",
        {"scale": (SHORT, 1, 1), "count_odd": (1,)},
        {"scale": (True, False), "count_odd": (True,)},
    ),
    "driver": Program(
        0,
        f"y {1 + 0.25 * (SHORT + 1):.2f}, ticks 2\n",
        {"axpy": (SHORT + 1,), "tick": (2,)},
        {"axpy": (True, False), "tick": ()},
        {"axpy": {"ticks": "01000000"}, "tick": {}},
        needs_module=True,
    ),
    "graph": Program(
        0,
        "smooth 4.000, number 7\n",
        {"fill<float>": (1, SHORT), "smooth<3>": (SHORT + 1,), "smooth<1>": (1,), "fill<int>": (1,)},
        {
            "fill<float>": (True,),
            "smooth<3>": (False, True),
            "smooth<1>": (False, True),
            "fill<int>": (True,),
        },
        {"smooth<3>": {"weights": "0000003f0000803e0000003e"}},
    ),
}


def built(nvcc: str, arch: str, folder: Path) -> dict[str, list[str]]:
    """The command of each program."""
    made = {}
    module = folder / "module.cubin"
    subprocess.run(
        [nvcc, f"-arch={arch}", "-cubin", str(PROGRAMS / "module.cu"), "-o", str(module)], check=True
    )
    for name, known in KNOWN.items():
        command = [nvcc, "-std=c++17", "-O2", f"-arch={arch}", str(PROGRAMS / f"{name}.cu")]
        subprocess.run([*command, "-o", str(folder / name), "-ldl"], check=True)
        made[name] = [str(folder / name), *([str(module)] if known.needs_module else [])]
    return made


def ran(command: list[str], launches: int, record: Path | None, library: Path) -> tuple[int, str, float]:
    """Exit code, standard output and wall seconds."""
    environment = {name: text for name, text in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
    if record is not None:
        environment |= {"CUDA_INJECTION64_PATH": str(library), "KCURATE_CAPTURE_DIR": str(record)}
    start = time.perf_counter()
    done = subprocess.run(
        [*command, str(launches)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, time.perf_counter() - start


def short(mangled: str) -> str:
    """A kernel's name with its template arguments: `fill<int>`."""
    name = raw.demangled(mangled).replace("(int)", "").split("(")[0]
    return name.split(" ", 1)[-1]


def differences(known: Program, folder: Path) -> list[str]:
    """What the record says that is not so."""
    processes = raw.read(folder)
    if len(processes) != 1 or not processes[0].ended:
        return [f"{len(processes)} processes recorded, or the end is missing"]
    (process,) = processes
    lines: dict[str, list[Mapping[str, Any]]] = {}
    times: dict[str, list[int]] = {}
    for form, line in process.forms.items():
        lines.setdefault(short(line["kernel"]), []).append(line)
        times.setdefault(short(line["kernel"]), []).append(process.times.get(form, 0))
    found: list[tuple[str, object, object]] = [
        ("forms", {name: tuple(counts) for name, counts in times.items()}, dict(known.forms)),
        (
            "changed",
            {name: tuple(one["changed"] for one in all_of[0]["buffers"]) for name, all_of in lines.items()},
            dict(known.changed),
        ),
    ]
    for name, symbols in known.symbols.items():
        held = {
            one["name"]: (folder / one["before"]).read_bytes().hex() if one["before"] else ""
            for one in (lines.get(name) or [{"symbols": ()}])[0]["symbols"]
        }
        found.append((f"symbols of {name}", held, dict(symbols)))
    wrong = [f"{what}: {seen}, not {wanted}" for what, seen, wanted in found if seen != wanted]
    return wrong + [f"note {what}: {text}" for what, text in process.notes.items() if what == "cupti"]


def kept(record: Path, out: Path) -> None:
    """Copy a record; the program without its folder, contents up to `KEPT_BYTES`."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for path in sorted(record.iterdir()):
        if path.suffix == ".bin" and path.stat().st_size <= KEPT_BYTES:
            shutil.copyfile(path, out / path.name)
        elif path.suffix == ".jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            lines[0]["program"] = Path(lines[0]["program"]).name
            (out / path.name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def measured(name: str, command: list[str], options: argparse.Namespace, library: Path) -> dict[str, Any]:
    """One program's figures, and what was wrong (`wrong`)."""
    known, wrong = KNOWN[name], []
    with tempfile.TemporaryDirectory(prefix="kcurate-capture-own-") as temporary:
        record = Path(temporary) / "short"
        plain, with_recorder = (ran(command, SHORT, where, library)[:2] for where in (None, record))
        if plain != (known.code, known.output):
            sys.exit(f"error: {name} alone gives {plain}, not {(known.code, known.output)}; is there a GPU?")
        if with_recorder != plain:
            wrong.append(f"with the recorder: {with_recorder}, not {plain}")
        wrong += differences(known, record)
        if record.is_dir():
            kept(record, options.out / name)
        seconds: dict[tuple[bool, int], list[float]] = {}
        for repeat in range(options.repeats):
            for launches in (SHORT, options.launches):
                where = Path(temporary) / f"{repeat}-{launches}"
                code, output, plain_s = ran(command, launches, None, library)
                same_code, same_output, recorded_s = ran(command, launches, where, library)
                if (code, output) != (same_code, same_output):
                    wrong.append(f"{launches} launches: {(same_code, same_output)}, not {(code, output)}")
                seconds.setdefault((False, launches), []).append(plain_s)
                seconds.setdefault((True, launches), []).append(recorded_s)
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    more = options.launches - SHORT
    each_us = {on: 1e6 * (medians[on, options.launches] - medians[on, SHORT]) / more for on in (False, True)}
    return {
        "program": name,
        "plain_s": medians[False, options.launches],
        "recorded_s": medians[True, options.launches],
        "ratio": medians[True, options.launches] / medians[False, options.launches],
        "short_plain_s": medians[False, SHORT],
        "short_recorded_s": medians[True, SHORT],
        "launch_us": each_us[False],
        "recorded_launch_us": each_us[True],
        "samples_s": {f"{'recorded' if on else 'plain'}-{n}": values for (on, n), values in seconds.items()},
        "wrong": wrong,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", default="native")
    options = parser.parse_args()
    if options.launches <= SHORT:
        parser.error(f"--launches must be more than {SHORT}")
    options.out.mkdir(parents=True, exist_ok=True)
    library = building.injection()
    with tempfile.TemporaryDirectory(prefix="kcurate-capture-own-") as temporary:
        commands = built(options.nvcc, options.arch, Path(temporary))
        results = [measured(name, command, options, library) for name, command in commands.items()]
    (options.out / "summary.json").write_text(
        json.dumps({"launches": options.launches, "repeats": options.repeats, "programs": results}, indent=1)
        + "\n"
    )
    for one in results:
        print(
            f"{one['program']}: {one['plain_s']:.3f} s, recorded {one['recorded_s']:.3f} s, "
            f"ratio {one['ratio']:.2f}; one more launch {one['launch_us']:.1f} us, "
            f"recorded {one['recorded_launch_us']:.1f} us"
        )
        for text in one["wrong"]:
            print(f"  WRONG: {text}")
    return int(any(one["wrong"] for one in results))


if __name__ == "__main__":
    sys.exit(main())
