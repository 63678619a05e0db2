"""What Nsight Compute runs for judge_aa.py: each kernel on the judge's inputs, the cache flushed before."""

from __future__ import annotations

import json
import sys

from common import copy

from kcurate.backends.base import Compiled
from kcurate.backends.cuda import bench as cuda_bench
from kcurate.backends.cuda.bench import Bench
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.backends.cuda.device import CudaDevice
from kcurate.judge import compile_side
from kcurate.judge.timing.a_against_a import fma_pair
from kcurate.judge.workers.inside.execute import Prepared
from kcurate.problem import program
from kcurate.problem.inputs import contents

REPEATS = 9


def main() -> None:
    device = CudaDevice(0)
    compiler = CudaCompiler(device.arch)
    helpers = compiler.compile(cuda_bench.HELPERS, cuda_bench.HELPER_ENTRIES)
    assert isinstance(helpers, Compiled)
    bench = Bench(device, helpers)
    for kind, value in json.loads(sys.argv[1]):
        one = fma_pair(int(value)) if kind == "chain" else copy(value)
        assert one.problem is not None
        made = compile_side(one, "fast", compiler)
        assert isinstance(made, Compiled)
        bound = program.bind(one.problem, one.fast, one.problem.sizes.headline)
        values = contents.generate(one.problem, one.fast, one.problem.sizes.headline, 1)
        prepared = Prepared(device, device.load(made), bound, values)
        prepared.reset(1)
        for _ in range(REPEATS):
            bench.flush()
            prepared.run()
        device.synchronize()
        prepared.close()


if __name__ == "__main__":
    main()
