#include <cuda_pipeline.h>

#define WIDTH 32
#define LANES 8
#define ROWS 4
#define HEIGHT (LANES * ROWS)
#define THREADS (WIDTH * LANES)
#define FILTERS 8
#define CHANNELS 2
#define PITCH (WIDTH + 2)
#define PLANE ((HEIGHT + 2) * PITCH)
#define STAGE_WEIGHTS (CHANNELS * 9 * FILTERS)

__device__ __forceinline__ void copy_stage(float *tile, float *taps, const float *__restrict__ in,
                                           const float *__restrict__ weights, int channel, int c, int k, int h, int w,
                                           int filter)
{
    const int top = blockIdx.y * HEIGHT - 1, left = blockIdx.x * WIDTH - 1;
    for (int item = threadIdx.x; item < CHANNELS * PLANE; item += THREADS) {
        const int plane = channel + item / PLANE;
        const int row = top + item % PLANE / PITCH, col = left + item % PITCH;
        const bool inside = plane < c && row >= 0 && row < h && col >= 0 && col < w;
        __pipeline_memcpy_async(tile + item, inside ? in + (plane * h + row) * w + col : in, 4, inside ? 0 : 4);
    }
    for (int item = threadIdx.x; item < STAGE_WEIGHTS; item += THREADS) {
        const int mine = filter + item % FILTERS, tap = item / FILTERS % 9;
        const int plane = channel + item / (FILTERS * 9);
        const bool inside = plane < c && mine < k;
        __pipeline_memcpy_async(taps + item, inside ? weights + (mine * c + plane) * 9 + tap : weights, 4,
                                inside ? 0 : 4);
    }
    __pipeline_commit();
}

__device__ __forceinline__ void add_channel(float (*sum)[FILTERS], const float *tile, const float *taps, int y, int x)
{
    float held[ROWS + 2][3];
#pragma unroll
    for (int i = 0; i < ROWS + 2; i++)
#pragma unroll
        for (int j = 0; j < 3; j++)
            held[i][j] = tile[(y + i) * PITCH + x + j];
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            float tap[FILTERS];
#pragma unroll
            for (int f = 0; f < FILTERS; f += 4)
                *reinterpret_cast<float4 *>(tap + f) =
                    *reinterpret_cast<const float4 *>(taps + (i * 3 + j) * FILTERS + f);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int f = 0; f < FILTERS; f++)
                    sum[r][f] = fmaf(held[r + i][j], tap[f], sum[r][f]);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int c, int k, int h,
           int w)
{
    __shared__ float tile[2][CHANNELS * PLANE];
    __shared__ __align__(16) float taps[2][STAGE_WEIGHTS];
    const int groups = (k + FILTERS - 1) / FILTERS;
    const int image = blockIdx.z / groups, filter = blockIdx.z % groups * FILTERS;
    const int x = threadIdx.x % WIDTH, y = threadIdx.x / WIDTH * ROWS;
    const float *from = in + image * c * h * w;
    float sum[ROWS][FILTERS] = {};

    copy_stage(tile[0], taps[0], from, weights, 0, c, k, h, w, filter);
    int stage = 0;
    for (int channel = 0; channel < c; channel += CHANNELS) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (channel + CHANNELS < c)
            copy_stage(tile[stage ^ 1], taps[stage ^ 1], from, weights, channel + CHANNELS, c, k, h, w, filter);
#pragma unroll
        for (int i = 0; i < CHANNELS; i++)
            add_channel(sum, tile[stage] + i * PLANE, taps[stage] + i * 9 * FILTERS, y, x);
        stage ^= 1;
    }
    const int col = blockIdx.x * WIDTH + x, row = blockIdx.y * HEIGHT + y;
    if (col >= w)
        return;
#pragma unroll
    for (int f = 0; f < FILTERS; f++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (filter + f < k && row + r < h)
                out[((image * k + filter + f) * h + row + r) * w + col] = sum[r][f];
}
