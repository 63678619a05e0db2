#include <cooperative_groups.h>

#define BLOCKS 8
#define THREADS 512
#define COLS 256

namespace cg = cooperative_groups;

// One cluster per plate, one block per strip of rows, in shared memory for all steps; border rows are read from the
// neighbours.
extern "C" __global__ void __launch_bounds__(THREADS)
    steps(float *__restrict__ plates, float rate, int height, int width, int count)
{
    extern __shared__ float strips[];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank();
    const int rows = (height + BLOCKS - 1) / BLOCKS, first = rank * rows, own = max(0, min(rows, height - first));
    float *plate = plates + (static_cast<size_t>(blockIdx.x / BLOCKS) * height + first) * width;
    float *now = strips, *next = strips + rows * width;
    for (int i = threadIdx.x; i < own * width; i += THREADS)
        now[i] = plate[i];
    cluster.sync();
    const int part = threadIdx.x / COLS, half = (own + 1) / 2;
    const int begin = part * half, end = min(own, begin + half);
    for (int t = 0; t < count; t++) {
        for (int x = threadIdx.x % COLS; x < width; x += COLS) {
            if (begin >= end)
                break;
            float above = 0.0f;
            if (begin > 0)
                above = now[(begin - 1) * width + x];
            else if (first > 0)
                above = cluster.map_shared_rank(now, rank - 1)[(rows - 1) * width + x];
            float centre = now[begin * width + x];
#pragma unroll 4
            for (int y = begin; y < end; y++) {
                float below = 0.0f;
                if (y + 1 < own)
                    below = now[(y + 1) * width + x];
                else if (first + own < height)
                    below = cluster.map_shared_rank(now, rank + 1)[x];
                float value = centre;
                if (x > 0 && x < width - 1 && first + y > 0 && first + y < height - 1)
                    value += rate * (now[y * width + x - 1] + now[y * width + x + 1] + above + below - 4.0f * centre);
                next[y * width + x] = value;
                above = centre;
                centre = below;
            }
        }
        float *other = now;
        now = next;
        next = other;
        cluster.sync();
    }
    for (int i = threadIdx.x; i < own * width; i += THREADS)
        plate[i] = now[i];
}
