"""Programs of our own, built with nvcc against the stand-in for libcudart."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import files
from pathlib import Path

import pytest

from kcurate.capture import building

Build = Callable[..., Path]


def nvcc() -> Path:
    """The compiler of the wheel nvidia-cuda-nvcc."""
    for entry in files("nvidia-cuda-nvcc") or ():
        if entry.name == "nvcc":
            return Path(str(entry.locate()))
    raise AssertionError("the wheel nvidia-cuda-nvcc is not installed")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """Builds a program from its text, once."""
    made: dict[tuple[str, ...], Path] = {}
    libraries = tmp_path_factory.mktemp("libraries")
    (libraries / "libcudart.so").symlink_to(next(building.stand_in().glob("libcudart.so.*")))

    def build(text: str, *options: str) -> Path:
        key = (text, *options)
        if key not in made:
            folder = tmp_path_factory.mktemp("program")
            (folder / "program.cu").write_text(text)
            command = [
                str(nvcc()),
                "-cudart",
                "shared",
                "-cudadevrt",
                "none",
                "-arch=sm_90",
                f"-L{libraries}",
                *options,
            ]
            subprocess.run([*command, "program.cu", "-o", "program"], cwd=folder, check=True, timeout=120)
            made[key] = folder / "program"
        return made[key]

    yield build
