// A warp marches down 128 columns, four to a lane. Each row is staged in shared memory with its halo, filtered
// along x, and added to the 2 RADIUS + 1 rows of output it belongs to, which move on in registers. Bands are as tall as lets all blocks of a large image run at once.
#define STRIP 128
#define ROWS 200
#define WARPS 4

__constant__ float taps[32];

__device__ __forceinline__ float4 load4(const float *__restrict__ row, int x, int width)
{
    if (x >= 0 && x + 3 < width && width % 4 == 0)
        return __ldg(reinterpret_cast<const float4 *>(row + x));
    const int last = width - 1;
    return make_float4(row[min(max(x, 0), last)], row[min(max(x + 1, 0), last)], row[min(max(x + 2, 0), last)],
                       row[min(max(x + 3, 0), last)]);
}

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS, 5)
    blur(const float *__restrict__ image, float *__restrict__ out, int height, int width)
{
    constexpr int HALO = (RADIUS + 3) / 4 * 4;
    constexpr int TAPS = 2 * RADIUS + 1;
    constexpr int WINDOW = 2 * HALO + 4;
    __shared__ __align__(16) float staged[WARPS][2][STRIP + 2 * HALO];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = (blockIdx.x * WARPS + warp) * STRIP;
    if (strip >= width)
        return;
    const int x = strip + 4 * lane;
    const int first = blockIdx.y * ROWS, last = min(first + ROWS, height);
    const int rim = lane < HALO / 4 ? strip - HALO + 4 * lane : strip + STRIP + 4 * (lane - HALO / 4);
    const int rim_at = lane < HALO / 4 ? 4 * lane : STRIP + 4 * lane;
    const bool has_rim = lane < HALO / 2;
    float4 sums[TAPS];
#pragma unroll
    for (int i = 0; i < TAPS; i++)
        sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float *row = image + (size_t)max(first - RADIUS, 0) * width;
    float4 ahead = load4(row, x, width), rim_ahead = ahead;
    if (has_rim)
        rim_ahead = load4(row, rim, width);
    for (int y = first - RADIUS; y < last + RADIUS; y++) {
        float *line = staged[warp][(y - first + RADIUS) & 1];
        *reinterpret_cast<float4 *>(line + HALO + 4 * lane) = ahead;
        if (has_rim)
            *reinterpret_cast<float4 *>(line + rim_at) = rim_ahead;
        row = image + (size_t)min(max(y + 1, 0), height - 1) * width;
        ahead = load4(row, x, width);
        if (has_rim)
            rim_ahead = load4(row, rim, width);
        __syncwarp();
        float window[WINDOW];
#pragma unroll
        for (int i = 0; i < WINDOW; i += 4) {
            const float4 part = *reinterpret_cast<const float4 *>(line + 4 * lane + i);
            window[i] = part.x;
            window[i + 1] = part.y;
            window[i + 2] = part.z;
            window[i + 3] = part.w;
        }
        float4 along = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            along.x += taps[i] * window[HALO - RADIUS + i];
            along.y += taps[i] * window[HALO - RADIUS + i + 1];
            along.z += taps[i] * window[HALO - RADIUS + i + 2];
            along.w += taps[i] * window[HALO - RADIUS + i + 3];
        }
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            const float4 carried = i + 1 < TAPS ? sums[i + 1 < TAPS ? i + 1 : i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            const float tap = taps[TAPS - 1 - i];
            sums[i] = make_float4(carried.x + tap * along.x, carried.y + tap * along.y, carried.z + tap * along.z,
                                  carried.w + tap * along.w);
        }
        const int done = y - RADIUS;
        if (done >= first && x < width) {
            float *to = out + (size_t)done * width + x;
            if (width % 4 == 0) {
                *reinterpret_cast<float4 *>(to) = sums[0];
            } else {
                to[0] = sums[0].x;
                if (x + 1 < width)
                    to[1] = sums[0].y;
                if (x + 2 < width)
                    to[2] = sums[0].z;
                if (x + 3 < width)
                    to[3] = sums[0].w;
            }
        }
    }
}
