"""The commands and their order in `kcurate --help`; each has its own module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from kcurate.cli import (
    capture,
    configuration,
    demo,
    deopt,
    doctor,
    evaluate,
    listing,
    own,
    packing,
    problem,
    show,
    stages,
    train,
    tune,
)
from kcurate.cli.settings import SettingsCommand, SettingsGroup
from kcurate.cli.signatures import flattened

HELP = "Curate slow/fast CUDA kernel pairs: extract, deoptimise, prove, publish."
EPILOG = (
    "Every option is also a setting: KCURATE_<OPTION>, or KCURATE_<COMMAND>_<OPTION> for one command, in the "
    "environment, or a key in kcurate.toml in the workspace. Flags override the environment, which overrides "
    "the file; kcurate config show prints them all."
)
ROOT_HELP = {"--help", "-h", "--version"}
# A shell sets it to complete a line, which it hands over beside the arguments.
COMPLETION = "_KCURATE_COMPLETE"
COMMANDS: Mapping[str, Callable[..., Any]] = {
    "extract": stages.extract,
    "import": stages.import_,
    "capture": capture.capture,
    "deopt": deopt.deopt,
    "mint": stages.mint,
    "pair": own.pair,
    "optimize": own.optimize,
    "validate": stages.validate,
    "profile": stages.profile,
    "tune": tune.tune,
    "build": stages.build,
    "push": stages.push,
    "report": stages.report,
    "train": train.train,
    "eval": evaluate.evaluate,
    "serve": stages.serve,
    "verify-dataset": stages.verify_dataset,
    "pack": packing.pack,
    "unpack": packing.unpack,
    "list": listing.list_,
    "show": show.show,
    "demo": demo.demo,
    "doctor": doctor.doctor,
}
GROUPS: Mapping[str, tuple[str, Mapping[str, Callable[..., Any]]]] = {
    "problem": ("Infer problems for kernels that have none, and check completed drafts.", problem.COMMANDS),
    "config": ("Show the settings.", configuration.COMMANDS),
}


def _version(wanted: bool) -> None:
    if wanted:
        from kcurate import __version__

        print(f"kcurate {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Handle the options before the command."""


def build(args: Sequence[str] | None = None) -> typer.Typer:
    """The application; its help is plain text, since loading rich takes as long as everything else.

    If `args` request only the root's help or the version, commands have no options: importing those of all
    commands takes as long as the rest.
    """
    root_help = args is not None and {*args[:1]} <= ROOT_HELP and COMPLETION not in os.environ
    shaped = _without_options if root_help else flattened
    app = typer.Typer(
        name="kcurate",
        cls=SettingsGroup,
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        app.command(name, cls=SettingsCommand)(shaped(command))
    for name, (text, commands) in GROUPS.items():
        group = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
        for inner, command in commands.items():
            group.command(inner, cls=SettingsCommand)(shaped(command))
        app.add_typer(group, name=name)
    return app


def _without_options(command: Callable[..., Any]) -> Callable[..., Any]:
    def described() -> None:
        """A placeholder for a command on the page of the root's help."""

    described.__doc__ = command.__doc__
    return described
