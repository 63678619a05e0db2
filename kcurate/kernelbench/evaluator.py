"""The process that runs KernelBench's own code: its prompts, its build and its evaluator.

It reads a request file (`sys.argv[2]`; `sys.argv[1]` is the caller's import path, as JSON) and writes
`<step>.json` into its working directory. An answer cannot modify the request, but may have left files in the
directory in an earlier step. The answer and the evaluator share the process, as in KernelBench, so an answer
can forge its own result. The sandbox gives the process no network; it can write only to that directory, /dev
and /proc, and read only these, system folders, libraries and the checkout. It is as strict as this machine
supports, which is not checked here. Not covered: who starts it (`kcurate.evaluation.kernelbench_protocol`).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

# Packages that KernelBench imports for its LLM clients and evaluation does not need.
CLIENTS = ("dotenv", "litellm", "openai", "requests")
TRIALS, TIMED = 5, 100


@dataclass(frozen=True)
class Built:
    """The outcome of a build. `static`: why the static check refuses the answer; `why`: why it failed."""

    built: bool = False
    why: str = ""
    static: str = ""


@dataclass(frozen=True)
class Evaluation:
    """KernelBench's result for an answer; times in milliseconds. `metadata` None: it gave no result."""

    compiled: bool = False
    correct: bool = False
    ms: float = -1.0
    reference_ms: float = -1.0
    metadata: Mapping[str, str] | None = None


def result(step: str) -> str:
    """The name of the file with the result of a step."""
    return f"{step}.json"


def main() -> None:
    """Enter the sandbox and run the requested step."""
    from kcurate.judge.workers.inside import isolation

    request = json.loads(Path(sys.argv[2]).read_bytes())
    tree = Path(request["tree"])
    installed = [folder for folder in map(Path, filter(None, sys.path)) if any(folder.glob("*.dist-info"))]
    isolation.enter_folder(Path.cwd(), [tree, *installed])
    sys.path.insert(0, str(tree / "src"))
    sys.modules.setdefault("tomli", tomllib)
    for name in CLIENTS:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = _StandIn(name)
    results = STEPS[request["step"]](request)
    Path(result(request["step"])).write_text(json.dumps(results), encoding="utf-8")


class _StandIn(ModuleType):
    """A module whose every name is a function that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def prompted(request: Mapping[str, Any]) -> dict[str, Any]:
    """KernelBench's own prompt for each module, with one example."""
    prompts = importlib.import_module("kernelbench.prompt_constructor_toml")
    return {
        name: str(prompts.get_prompt_for_backend(code, "cuda", "one_shot", "fp32"))
        for name, code in request["modules"].items()
    }


def checked(request: Mapping[str, Any]) -> Built:
    """The result of KernelBench's static check and of its build with PyTorch's extensions."""
    if importlib.util.find_spec("kernelbench.kernel_static_checker") is not None:
        static = importlib.import_module("kernelbench.kernel_static_checker")
        valid, errors, _ = static.validate_kernel_static(request["code"], request["backend"], "fp32")
        if not valid:
            return Built(static="; ".join(map(str, errors)))
    if request["backend"] == "cuda":
        theirs = importlib.import_module("kernelbench.eval")
        built, _, why = theirs.build_compile_cache(request["code"], build_dir="build")
        return Built(bool(built), str(why or ""))
    return Built(True)


def evaluated(request: Mapping[str, Any]) -> Evaluation:
    """KernelBench's result for an answer."""
    torch = importlib.import_module("torch")
    theirs = importlib.import_module("kernelbench.eval")
    execution = theirs.eval_kernel_against_ref(
        request["module"],
        request["code"],
        num_correct_trials=TRIALS,
        num_perf_trials=TIMED,
        measure_performance=True,
        build_dir="build",
        device=torch.device("cuda:0"),
        backend=request["backend"],
        precision=torch.float32,
    )
    if execution is None:
        return Evaluation()
    metadata = {str(name): str(value) for name, value in execution.metadata.items()}
    times = float(execution.runtime), float(execution.ref_runtime)
    return Evaluation(bool(execution.compiled), bool(execution.correctness), *times, metadata)


STEPS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "prompts": prompted,
    "build": lambda request: asdict(checked(request)),
    "evaluate": lambda request: asdict(evaluated(request)),
}

if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        main()
