"""A small tree of our own, in the idioms of host code that drafts are read from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SAXPY = """
#include <cstdlib>
#define THREADS 128
typedef float real;
__global__ void saxpy(int n, real a, const real *x, real *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
  size_t bytes = n * sizeof(real);
  real *d_x, *d_y, *x = (real *)malloc(bytes), *y = (real *)malloc(bytes);
  cudaMalloc((void **)&d_x, bytes);
  cudaMalloc((void **)&d_y, bytes);
  cudaMemcpy(d_x, x, bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(d_y, y, bytes, cudaMemcpyHostToDevice);
  saxpy<<<(n + THREADS - 1) / THREADS, THREADS>>>(n, 2.5f, d_x, d_y);
  cudaMemcpy(y, d_y, bytes, cudaMemcpyDeviceToHost);
}
"""

# The launch stands in a wrapper, in another file than the allocations.
ROWS_KERNEL = """
#define BX 16
#define BY 8
__global__ void row_scale(const float *in, const int *scale, float *out, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) out[r * cols + c] = in[r * cols + c] * scale[r];
}
void run_rows(float *d_in, int *d_scale, float *d_out, int h, int w) {
  dim3 block(BX, BY);
  dim3 grid((w + block.x - 1) / block.x, (size_t)ceil((float)h / (float)block.y));
  row_scale<<<grid, block>>>(d_in, d_scale, d_out, h, w);
}
"""
ROWS_MAIN = """
#include <vector>
void run_rows(float *d_in, int *d_scale, float *d_out, int h, int w);
const int WIDTH = 1920;
#define HEIGHT 1080
int main() {
  std::vector<float> host(WIDTH * HEIGHT);
  float *src, *dst;
  int *factor;
  cudaMalloc(&src, host.size() * sizeof(float));
  cudaMalloc(&dst, sizeof(float) * HEIGHT * WIDTH);
  cudaMalloc(&factor, HEIGHT * sizeof(*factor));
  run_rows(src, factor, dst, HEIGHT, WIDTH);
}
"""

BINS = """
__global__ void weigh(const float4 *points, const int *bin, float *sums, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&sums[bin[i]], points[i].x + points[i].w);
}
void bins(int n, int buckets) {
  float4 *p; int *b; float *s;
  cudaMalloc(&p, n * sizeof(float4));
  cudaMalloc(&b, sizeof(int) * n);
  cudaMalloc(&s, buckets * sizeof(float));
  cudaMemset(s, 0, buckets * sizeof(float));
  weigh<<<32, 64>>>(p, b, s, n);
}
"""

# No guard: only multiples of the block will do.
TILES = """
__constant__ float taps[3];
__global__ void smooth(const double *in, double *out) {
  __shared__ double tile[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  tile[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = taps[0] * tile[threadIdx.x] + taps[1] * tile[63 - threadIdx.x];
}
void tiles(int count, const float *host_taps) {
  double *a, *b;
  cudaMalloc((void **)&a, count * sizeof(double));
  cudaMalloc((void **)&b, count * sizeof(double));
  cudaMemcpyToSymbol(taps, host_taps, sizeof(taps));
  dim3 threads = dim3(64);
  smooth<<<count / 64, threads>>>(a, b);
}
"""

OPEN = """
struct Views { float *a; float *b; };
__global__ void through_struct(Views v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v_a = i;
  if (i < n) v.b[v_a] = v.a[v_a];
}
__global__ void through_table(float **rows, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) rows[0][i] = 1.0f;
}
union Bits { int whole; float real; };
__global__ void mystery(const float *in, float *out, int n, Bits bits) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 2.0f;
}
__global__ void never_launched(float *out) { out[threadIdx.x] = 1.0f; }
void open_ones(Views v, float **rows, int n, float *in, float *out, int blocks_of_mystery()) {
  through_struct<<<(n + 255) / 256, 256>>>(v, n);
  through_table<<<(n + 255) / 256, 256>>>(rows, n);
}
"""

# Allocated shorter than what the kernel writes: what the host says is wrong, and the guards tell otherwise.
SHORT = """
__global__ void spread(const int *in, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[2 * i] = in[i]; out[2 * i + 1] = -in[i]; }
}
void shorts(int n) {
  int *a, *b;
  cudaMalloc(&a, n * sizeof(int));
  cudaMalloc(&b, n * sizeof(int));
  spread<<<(n + 127) / 128, 128>>>(a, b, n);
}
"""

FILES: Mapping[str, str] = {
    "saxpy/saxpy.cu": SAXPY,
    "rows/rows.cu": ROWS_KERNEL,
    "rows/main.cu": ROWS_MAIN,
    "bins/bins.cu": BINS,
    "tiles/tiles.cu": TILES,
    "open/open.cu": OPEN,
    "short/short.cu": SHORT,
}


def write_tree(folder: Path) -> Path:
    """The tree's files below a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
