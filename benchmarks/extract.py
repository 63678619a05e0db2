"""How fast `kcurate extract` is: against bare tree-sitter on the same bytes, and with two jobs against one.

    python benchmarks/extract.py [TREE ...] [--repeats 5] [--jobs 2]

Without a TREE, a synthetic one of our own is generated. Nothing is compiled. The bytes are those of
every source file that extract reads; the bare parse parses each of these files once, raw. Medians over the
repeats, interleaved, every repeat into a fresh workspace. The trees are read as one generic
tree; `--copies` puts each into it several times. Peak memory is the resident set.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TARGET_RATIO = 0.5
TARGET_SPEEDUP = 1.7
SUITE = "generic"
# In memory where there is such a place: a slow disk would be what is measured.
WORKSPACES = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

HELPERS = """
__device__ __forceinline__ float mixed_{i}(float a, float b, float weight) {{
  // a helper that the kernel below needs
  return a * weight + b * (1.0f - weight);
}}

#define TILE_{i} {tile}

/* Smooths each row with a window, in shared memory. */
__global__ void smooth_{i}(const float *__restrict__ in, float *__restrict__ out, int n, float weight) {{
  __shared__ float tile[TILE_{i} + 2];
  int at = blockIdx.x * TILE_{i} + threadIdx.x;
  float value = at < n ? in[at] : 0.0f;
  tile[threadIdx.x + 1] = value;
  if (threadIdx.x == 0) tile[0] = at > 0 ? in[at - 1] : value;
  if (threadIdx.x == TILE_{i} - 1) tile[TILE_{i} + 1] = at + 1 < n ? in[at + 1] : value;
  __syncthreads();
  for (int round = 0; round < 4; round++) {{
    float left = tile[threadIdx.x], right = tile[threadIdx.x + 2];
    value = mixed_{i}(value, 0.5f * (left + right), weight);
    __syncthreads();
    tile[threadIdx.x + 1] = value;
    __syncthreads();
  }}
  if (at < n) out[at] = value;
}}
"""

HOST = """
static void fill_{i}(float *data, int n) {{
  for (int k = 0; k < n; k++) {{
    if (k % {tile} == 0) {{
      data[k] = (float)rand() / RAND_MAX;
    }} else {{
      data[k] = 0.5f * data[k - 1] + 0.25f;
    }}
  }}
}}

static int check_{i}(const float *expected, const float *actual, int n) {{
  int wrong = 0;
  for (int k = 0; k < n; k++) {{
    float difference = fabsf(expected[k] - actual[k]);
    if (difference > 1e-5f * fabsf(expected[k])) {{
      if (wrong < 10) printf("element %d: expected %f, got %f\\n", k, expected[k], actual[k]);
      wrong++;
    }}
  }}
  return wrong;
}}

int run_{i}(int n, float weight) {{
  size_t bytes = n * sizeof(float);
  float *in = (float *)malloc(bytes), *out = (float *)malloc(bytes);
  float *d_in, *d_out;
  fill_{i}(in, n);
  cudaMalloc((void **)&d_in, bytes);
  cudaMalloc((void **)&d_out, bytes);
  cudaMemcpy(d_in, in, bytes, cudaMemcpyHostToDevice);
  dim3 grid((n + TILE_{i} - 1) / TILE_{i}), block(TILE_{i});
  for (int round = 0; round < 10; round++) {{
    smooth_{i}<<<grid, block>>>(d_in, d_out, n, weight);
    float *swap = d_in; d_in = d_out; d_out = swap;
  }}
  cudaMemcpy(out, d_in, bytes, cudaMemcpyDeviceToHost);
  int wrong = check_{i}(in, out, n);
  cudaFree(d_in);
  cudaFree(d_out);
  free(in);
  free(out);
  return wrong;
}}
"""


def make_tree(folder: Path, programs: int) -> None:
    """A generic tree of `programs` small programs: two kernels and their host code a file, one header."""
    for number in range(programs):
        program = folder / f"program{number}"
        program.mkdir(parents=True)
        (program / "common.h").write_text("#ifndef COMMON_H\n#define COMMON_H\n#include <stdio.h>\n#endif\n")
        parts = ['#include "common.h"\n#include <math.h>\n#include <stdlib.h>\n']
        for i in range(2):
            parts += [HELPERS.format(i=i, tile=64 << i), HOST.format(i=i, tile=64 << i)]
            parts += [
                HOST.format(i=f"{i}_again", tile=16)
                .replace(f"smooth_{i}_again", f"smooth_{i}")
                .replace(f"TILE_{i}_again", f"TILE_{i}")
            ]
        (program / "main.cu").write_text("".join(parts))


def sources_of(trees: list[Path]) -> list[bytes]:
    """The bytes of every file that extract opens as source."""
    from kcurate.extract.sources import find_files
    from kcurate.extract.walk import Filter

    return [
        (found.tree.root / found.path).read_bytes()
        for files in find_files(trees, SUITE, Filter())
        for found in files.found
        if found.outcome is None
    ]


def parse_all(sources: list[bytes]) -> None:
    import tree_sitter
    import tree_sitter_cuda

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    for data in sources:
        parser.parse(data)


def extract_all(trees: list[Path], jobs: int) -> int:
    from kcurate.extract.stage import ExtractConfig, run

    with tempfile.TemporaryDirectory(dir=WORKSPACES) as workspace:
        summary = run(ExtractConfig(tuple(trees), Path(workspace), SUITE, jobs=jobs, compile=False))
    return sum(summary.items["kernels"].values())


def seconds(call: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


def spread(values: list[float]) -> float:
    """Largest minus smallest over the median."""
    return (max(values) - min(values)) / statistics.median(values)


def at_once(sources: list[bytes], jobs: int) -> None:
    """`jobs` processes, each parsing everything: what the cores give to work that shares nothing."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=parse_all, args=(sources,)) for _ in range(jobs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def peak_bytes(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * 1024


def measure(trees: list[Path], jobs: int, repeats: int) -> None:
    sources = sources_of(trees)
    size = sum(map(len, sources))
    kernels = extract_all(trees, 1)  # also warms caches
    bare: list[float] = []
    one: list[float] = []
    many: list[float] = []
    for _ in range(repeats):  # interleaved, so that all see the same machine
        bare.append(seconds(lambda: parse_all(sources)))
        one.append(seconds(lambda: extract_all(trees, 1)))
    alone_bytes = peak_bytes(resource.RUSAGE_SELF)
    ceiling: list[float] = []
    for _ in range(repeats):
        alone_s = seconds(lambda: parse_all(sources))
        ceiling.append(jobs * alone_s / seconds(lambda: at_once(sources, jobs)))
        one.append(seconds(lambda: extract_all(trees, 1)))
        many.append(seconds(lambda: extract_all(trees, jobs)))
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"workspaces in {'memory (tmpfs)' if WORKSPACES else 'the temporary folder'}")
    print(f"workload: {len(sources)} source files, {size / 1e6:.2f} MB, {kernels} kernels; {repeats} repeats")
    for name, walls in (("bare tree-sitter", bare), ("extract, 1 job", one), (f"extract, {jobs} jobs", many)):
        wall_s = statistics.median(walls)
        print(
            f"{name:18} {wall_s:7.3f} s  {size / 1e6 / wall_s:6.2f} MB/s  spread {100 * spread(walls):.0f}%"
        )
    against_bare = statistics.median(b / o for b, o in zip(bare, one, strict=False))
    against_one = statistics.median(o / m for o, m in zip(one[repeats:], many, strict=True))
    print(f"throughput against bare parsing: {against_bare:.2f} (target {TARGET_RATIO})")
    print(f"{jobs} jobs against 1: {against_one:.2f} (target {TARGET_SPEEDUP} with 2)")
    print(f"{jobs} bare parses at once against 1: {statistics.median(ceiling):.2f} (what the machine gave)")
    workers_bytes = peak_bytes(resource.RUSAGE_CHILDREN)
    print(f"peak memory: {alone_bytes / 2**20:.0f} MiB with 1 job; {workers_bytes / 2**20:.0f} MiB a worker")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--programs", type=int, default=200, help="size of the synthetic tree")
    parser.add_argument("--copies", type=int, default=1, help="how often each TREE is taken")
    options = parser.parse_args()
    if options.trees:
        with tempfile.TemporaryDirectory(dir=WORKSPACES) as folder:
            for tree in options.trees:
                for number in range(options.copies):
                    shutil.copytree(tree, Path(folder) / f"{tree.name}{number}", symlinks=True)
            measure([Path(folder)], options.jobs, options.repeats)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_tree(Path(folder) / "synthetic", options.programs)
        measure([Path(folder) / "synthetic"], options.jobs, options.repeats)


if __name__ == "__main__":
    main()
