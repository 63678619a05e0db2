"""The commands and their order in `kcurate --help`; each lives in a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from kcurate.cli.settings import SettingsCommand, SettingsGroup

EPILOG = (
    "Every option is also a setting: KCURATE_<OPTION> in the environment, or a key in kcurate.toml in the "
    "workspace. Flags come before the environment, that before the file."
)

app = typer.Typer(
    name="kcurate",
    cls=SettingsGroup,
    help="Curate slow/fast CUDA kernel pairs: extract, deoptimise, prove, publish.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from kcurate import __version__

        print(f"kcurate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Curate slow/fast CUDA kernel pairs: extract, deoptimise, prove, publish."""


def build() -> typer.Typer:
    """The application with every command registered."""
    from kcurate.cli import doctor

    app.command("doctor", cls=SettingsCommand)(doctor.doctor)
    return app
