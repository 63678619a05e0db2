"""README's path from nothing to a report, run line by line as README has it, with the time of each line.

    python3 benchmarks/walk.py                      # a copy of this tree, its own .venv, the base install
    python3 benchmarks/walk.py --extra gpu          # where there is a GPU: both sides are timed too
    python3 benchmarks/walk.py --installed          # without the install: with the kcurate of this Python

Ends with 1 if a line fails, or if the path takes more than `--most` seconds without the install. `--machine`
prints rows for docs/data/walks.jsonl. Standard library only, since it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "kcurate-work", "__pycache__", "*.egg-info", "build")


def lines() -> list[str]:
    """The commands of README's path, without the remarks behind them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(\$ python3 -m venv.*?)```", readme, re.DOTALL)
    return [line.removeprefix("$ ").partition("  #")[0].rstrip() for line in block.splitlines()]


def walk(commands: list[str], folder: Path, environment: dict[str, str]) -> list[dict[str, object]]:
    """Run the commands in one shell, so that `cd` and `activate` last; a row each, until one fails."""
    rows: list[dict[str, object]] = []
    with subprocess.Popen(
        ["bash"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        for command in commands:
            print(f"$ {command}", flush=True)
            start = time.monotonic()
            shell.stdin.write(f"{command} < /dev/null 1>&2\necho $?\n")
            shell.stdin.flush()
            code = int(shell.stdout.readline() or 1)
            rows.append({"command": command, "seconds": round(time.monotonic() - start, 1), "exit": code})
            print(f"  {rows[-1]['seconds']} s, exit {code}", flush=True)
            if code:
                break
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--extra", help="install .[EXTRA] instead of .")
    parser.add_argument("--installed", action="store_true", help="install nothing")
    parser.add_argument("--most", type=float, default=300.0, help="seconds without the install")
    parser.add_argument("--machine", help="print rows for docs/data/walks.jsonl, with this name")
    options = parser.parse_args()
    commands, environment = lines(), dict(os.environ)
    if options.installed:
        commands = [command for command in commands if not command.startswith("python3 -m venv")]
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    if options.extra:
        commands = [
            command.replace("pip install .", f"pip install '.[{options.extra}]'") for command in commands
        ]
    with tempfile.TemporaryDirectory() as folder:
        tree = shutil.copytree(ROOT, Path(folder) / "kcurate", ignore=LEFT_OUT)
        rows = walk(commands, tree, environment)
        failed = any(row.pop("exit") for row in rows)
        path = sum(float(str(row["seconds"])) for row in rows if "pip install" not in str(row["command"]))
        whole = sum(float(str(row["seconds"])) for row in rows)
        print(f"{whole:.1f} s, {path:.1f} s of them without the install", flush=True)
    for row in rows if options.machine else ():
        print(json.dumps({"walk": "README's path, examples/kernels", "machine": options.machine, **row}))
    return int(failed or path > options.most)


if __name__ == "__main__":
    sys.exit(main())
