"""Reports what this machine can do: one finding per topic, with a hint on how to get what is missing.

Read-only: it changes nothing, opens no GPU context and shows no secret. Not covered: whether a command will
succeed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kcurate.errors import MissingDependencyError

# A tool that does not print its version within this time counts as broken.
PROBE_TIMEOUT_S = 20.0
GPU_EXTRA = "pip install 'kcurate[gpu]'"
HEADER_PACKAGES = ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl")


@dataclass(frozen=True)
class Finding:
    """One thing that was checked; `hint` says how to get it if it is missing."""

    topic: str
    ok: bool
    detail: str
    hint: str | None = None


def examine(environment: Mapping[str, str] = os.environ) -> tuple[Finding, ...]:
    """All findings; those that matter most to a new user come first."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    hint = "not needed; a CUDA toolkit brings it"
    with ThreadPoolExecutor() as pool:  # at the same time, since nvidia-smi alone can take seconds
        gpus, host = pool.submit(_gpus), pool.submit(_host_compiler)
        nvcc, sanitizer = pool.submit(_tool, "nvcc", hint), pool.submit(_tool, "compute-sanitizer", hint)
    return (
        Finding("Python", True, f"{platform.python_version()} on {platform.machine()}, {cores} cores"),
        host.result(),
        _nvrtc(),
        _headers(environment),
        _capture(environment, host.result()),
        nvcc.result(),
        *gpus.result(),
        sanitizer.result(),
        *_isolation(),
        _package("dataset writer", "datasets", "pip install kcurate"),
        _package("OpenAI-compatible servers", "openai", "pip install 'kcurate[openai]'"),
        _package("training", "torch", "pip install 'kcurate[train]'"),
        _package("Triton sides", "triton", "pip install 'kcurate[triton]'"),
        _package("second reader of extract", "libclang-ng", "pip install 'kcurate[clang]'"),
        _token("Anthropic key", ("ANTHROPIC_API_KEY",), environment),
        _token("Hugging Face token", ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), environment),
    )


def _first_line(*command: str) -> str | None:
    """The first line with a version, else the first line; None if the tool is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        return None
    return next((line for line in lines if "release" in line or "Version" in line), lines[0])


def _host_compiler() -> Finding:
    topic = "C++ compiler (emulator)"
    for name in ("g++", "clang++"):
        if shutil.which(name) and (version := _first_line(name, "--version")):
            return Finding(topic, True, version)
    if importlib.util.find_spec("ziglang") is not None:
        return Finding(topic, True, f"clang of the ziglang wheel {_installed('ziglang')}")
    hint = "apt-get install g++, or pip install 'kcurate[emulator]'"
    return Finding(topic, False, "no g++, clang++ or ziglang wheel", hint)


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvrtc() -> Finding:
    topic = "NVRTC (compiles for GPUs)"
    core, nvrtc = _installed("cuda-core"), _installed("nvidia-cuda-nvrtc")
    if core and nvrtc:
        return Finding(topic, True, f"{nvrtc}, through cuda-core {core}")
    lacking = " and ".join(name for name in ("cuda-core", "nvidia-cuda-nvrtc") if not _installed(name))
    return Finding(topic, False, f"{lacking} not installed", GPU_EXTRA)


def _headers(environment: Mapping[str, str]) -> Finding:
    from kcurate.backends.cuda.nvrtc import toolkit_folders

    versions = {name: _installed(name) for name in HEADER_PACKAGES}
    detail = ", ".join(f"{name.removeprefix('nvidia-cuda-')} {version}" for name, version in versions.items())
    missing = [name for name, version in versions.items() if version is None]
    if missing and (folders := toolkit_folders(environment)):
        return Finding("CUDA headers", True, f"of the CUDA toolkit in {folders[0]}")
    if missing:
        return Finding("CUDA headers", False, f"{', '.join(missing)} not installed", GPU_EXTRA)
    return Finding("CUDA headers", True, detail)


def _capture(environment: Mapping[str, str], compiler: Finding) -> Finding:
    """Whether programs on a GPU can be recorded: the recorder is compiled on first use and loads libcupti."""
    from kcurate.backends.cuda.nvrtc import CUPTI_HEADERS, host_folders

    topic = "capture on a GPU"
    try:
        folders, libraries = host_folders(CUPTI_HEADERS, environment)
    except MissingDependencyError as error:
        return Finding(topic, False, error.what, error.hint)
    if not compiler.ok:
        return Finding(topic, False, compiler.detail, compiler.hint)
    if not any(path for folder in libraries for path in folder.glob("libcupti.so*")):
        hint = f"{GPU_EXTRA}, or install CUPTI of the CUDA toolkit"
        return Finding(topic, False, f"no libcupti beside the headers in {folders[0]}", hint)
    return Finding(topic, True, f"can be built with the headers in {folders[0]}")


def _tool(name: str, hint: str) -> Finding:
    version = _first_line(name, "--version")
    if version is None:
        return Finding(name, False, "not found" if shutil.which(name) is None else "does not run", hint)
    return Finding(name, True, version)


def _gpus() -> tuple[Finding, ...]:
    query = ("--query-gpu=index,name,driver_version,memory.total", "--format=csv,noheader")
    try:
        done = subprocess.run(
            ("nvidia-smi", *query), capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        hint = "the emulator checks correctness without one; timing needs one"
        return (Finding("GPU", False, "none (no nvidia-smi)", hint),)
    except (OSError, subprocess.TimeoutExpired):
        return (Finding("GPU", False, "nvidia-smi hangs or cannot be run", "check the NVIDIA driver"),)
    if done.returncode:
        reason = (done.stdout or done.stderr).strip().splitlines()
        return (
            Finding("GPU", False, reason[0] if reason else "nvidia-smi fails", "check the NVIDIA driver"),
        )
    findings = []
    for line in done.stdout.splitlines():
        index, name, driver, memory = (part.strip() for part in line.split(",", 3))
        findings.append(Finding(f"GPU {index}", True, f"{name}, {memory}, driver {driver}"))
    return tuple(findings) or (Finding("GPU", False, "nvidia-smi lists no GPU", "check the NVIDIA driver"),)


def _isolation() -> tuple[Finding, ...]:
    """The measures of the sandbox around a candidate's code."""
    from kcurate.judge.workers.inside.isolation import describe

    hint = "a newer Linux kernel; until then judge only code that you trust"
    hints = {
        "files": "Linux 5.13 with Landlock (boot with lsm=landlock,...), or allow user namespaces (sysctl "
        "user.max_user_namespaces), or root with CAP_SYS_ADMIN; until then judge only code that you trust"
    }
    facts = ((each, None if each.on else hints.get(each.name, hint)) for each in describe())
    return tuple(Finding(f"isolation: {each.name}", each.on, each.detail, advice) for each, advice in facts)


def _package(topic: str, name: str, hint: str) -> Finding:
    version = _installed(name)
    if version is None:
        return Finding(topic, False, f"{name} not installed", hint)
    return Finding(topic, True, f"{name} {version}")


def _token(topic: str, names: tuple[str, ...], environment: Mapping[str, str]) -> Finding:
    variable = next((name for name in names if environment.get(name)), None)
    if variable:
        return Finding(topic, True, f"{variable} is set")
    return Finding(topic, False, f"{names[0]} is not set", f"export {names[0]}=...")
