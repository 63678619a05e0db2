"""Writes docs/cli.md from the commands' own help: `python -m kcurate.cli.reference docs/cli.md`.

A test compares the file with this module's output, so the page cannot drift from the program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from kcurate.cli.app import build

WIDTH = 100
HEAD = """# The command line

Generated from `kcurate --help` by `make docs`.

Exit codes: 0 done · 1 a known error, in one line · 2 usage error · 130 interrupted · 141 stdout was closed.
"""


def _help(command: Any, context: Any) -> str:
    return str(command.get_help(context)).rstrip()


def _section(name: str, command: Any, context: Any) -> list[str]:
    return [f"## {name}\n", f"```text\n{_help(command, context)}\n```\n"]


def render() -> str:
    """The whole page as Markdown."""
    group: Any = typer.main.get_command(build(rich=False))
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    with group.make_context("kcurate", [], resilient_parsing=True, **settings) as root:
        parts = [HEAD, "## kcurate\n", f"```text\n{_help(group, root)}\n```\n"]
        for name, command in group.commands.items():
            with command.make_context(name, ["--help"], root, resilient_parsing=True, **settings) as context:
                parts += _section(f"kcurate {name}", command, context)
                for own, inner in getattr(command, "commands", {}).items():
                    with inner.make_context(
                        own, ["--help"], context, resilient_parsing=True, **settings
                    ) as there:
                        parts += _section(f"kcurate {name} {own}", inner, there)
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
