"""The usual way to judge a kernel, timed: torch's load_inline, allclose, events. Run by benchmarks/judge.py.

    python benchmarks/judge_rival.py KERNELS.json OUT.json [--compile-only]

KERNELS.json is a list of {name, cuda, expected, shape}. torch is imported and the GPU open before the clock
starts; builds go to an empty folder.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CPP = "torch::Tensor run(torch::Tensor x);"
REPEATS = 100


def judge(torch: Any, load_inline: Any, kernel: dict[str, str], compile_only: bool) -> dict[str, Any]:
    started = time.perf_counter()
    module = load_inline(kernel["name"], CPP, kernel["cuda"], functions=["run"], with_cuda=True)
    compiled = time.perf_counter()
    row: dict[str, Any] = {"name": kernel["name"], "compile_s": compiled - started}
    if compile_only:
        return row
    x = torch.randn(*json.loads(kernel["shape"]), device="cuda")
    expected = eval(kernel["expected"], {"x": x})  # our own text, from benchmarks/kernels.py
    row["correct"] = bool(torch.allclose(module.run(x), expected, rtol=1e-3, atol=1e-3))
    times = {}
    for name, work in (
        ("kernel", lambda: module.run(x)),
        ("torch", lambda: eval(kernel["expected"], {"x": x})),
    ):
        for _ in range(10):
            work()
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPEATS)]
        for first, last in events:
            first.record()
            work()
            last.record()
        torch.cuda.synchronize()
        times[name] = sorted(first.elapsed_time(last) * 1e3 for first, last in events)[REPEATS // 2]
    return {**row, "times_us": times, "wall_s": time.perf_counter() - started}


def main() -> None:
    kernels = json.loads(Path(sys.argv[1]).read_text())
    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp(prefix="rival-")
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    import torch
    from torch.utils.cpp_extension import load_inline

    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
    compile_only = "--compile-only" in sys.argv
    rows = [judge(torch, load_inline, kernel, compile_only) for kernel in kernels]
    Path(sys.argv[2]).write_text(json.dumps({"torch": torch.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
