// A block goes down a column of tiles, 128 by 32 outputs each, 4 by 4 a thread: while one tile is computed the
// next one is copied into the other half of shared memory. A row read once serves up to four rows of outputs.
#include <cuda_pipeline_primitives.h>

#define TX 32
#define TY 8
#define OWN 4
#define TILES 4
#define WIDE (TX * OWN)
#define HIGH (TY * OWN)

__constant__ float taps[15 * 15];

template <int RADIUS>
__device__ __forceinline__ void fetch(float *tile, const float *__restrict__ image, int x0, int y0, int height, int width)
{
    constexpr int HALO = (RADIUS + 3) / 4 * 4, PITCH = WIDE + 2 * HALO, LINES = HIGH + 2 * RADIUS;
    const int id = threadIdx.y * TX + threadIdx.x;
    for (int i = id; i < LINES * (PITCH / 4); i += TX * TY) {
        const int line = i / (PITCH / 4), quad = i % (PITCH / 4);
        const int x = x0 - HALO + 4 * quad, y = y0 - RADIUS + line;
        float *to = tile + line * PITCH + 4 * quad;
        const bool row = y >= 0 && y < height;
        const float *from = image + (size_t)(row ? y : 0) * width;
        if (width % 4 == 0) {
            const bool inside = row && x >= 0 && x < width;
            __pipeline_memcpy_async(to, from + (inside ? x : 0), 16, inside ? 0 : 16);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const bool inside = row && x + k >= 0 && x + k < width;
                __pipeline_memcpy_async(to + k, from + (inside ? x + k : 0), 4, inside ? 0 : 4);
            }
        }
    }
}

template <int RADIUS>
__global__ void __launch_bounds__(TX *TY)
    correlate(const float *__restrict__ image, float *__restrict__ out, int height, int width)
{
    constexpr int HALO = (RADIUS + 3) / 4 * 4, PITCH = WIDE + 2 * HALO, LINES = HIGH + 2 * RADIUS;
    constexpr int SIDE = 2 * RADIUS + 1, WINDOW = OWN + 2 * HALO;
    extern __shared__ __align__(16) float tiles[];
    const int x0 = blockIdx.x * WIDE, first = blockIdx.y * TILES * HIGH;
    const int count = min(TILES, (height - first + HIGH - 1) / HIGH);
    fetch<RADIUS>(tiles, image, x0, first, height, width);
    __pipeline_commit();
    for (int t = 0; t < count; t++) {
        if (t + 1 < count)
            fetch<RADIUS>(tiles + (t + 1) % 2 * LINES * PITCH, image, x0, first + (t + 1) * HIGH, height, width);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        const float *own = tiles + t % 2 * LINES * PITCH + OWN * threadIdx.y * PITCH + OWN * threadIdx.x;
        float sum[OWN][OWN] = {};
#pragma unroll
        for (int line = 0; line < OWN + 2 * RADIUS; line++) {
            float window[WINDOW];
#pragma unroll
            for (int i = 0; i < WINDOW; i += 4) {
                const float4 part = *reinterpret_cast<const float4 *>(own + line * PITCH + i);
                window[i] = part.x;
                window[i + 1] = part.y;
                window[i + 2] = part.z;
                window[i + 3] = part.w;
            }
#pragma unroll
            for (int r = 0; r < OWN; r++)
                if (line - r >= 0 && line - r < SIDE)
#pragma unroll
                    for (int k = 0; k < SIDE; k++)
#pragma unroll
                        for (int c = 0; c < OWN; c++)
                            sum[r][c] += taps[(line - r) * SIDE + k] * window[HALO - RADIUS + c + k];
        }
        __syncthreads();
        const int x = x0 + OWN * threadIdx.x, y = first + t * HIGH + OWN * threadIdx.y;
#pragma unroll
        for (int r = 0; r < OWN; r++)
            if (y + r < height && x < width) {
                float *to = out + (size_t)(y + r) * width + x;
                if (width % 4 == 0)
                    *reinterpret_cast<float4 *>(to) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
                else
#pragma unroll
                    for (int c = 0; c < OWN; c++)
                        if (x + c < width)
                            to[c] = sum[r][c];
            }
    }
}
