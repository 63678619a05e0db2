// A warp marches along 128 columns, four to a lane. Rows with their halo come to shared memory by asynchronous copies,
// STAGES ahead and the warp's own, so that far more bytes are on their way than registers could hold and no block
// waits. Each row is filtered along x and added to the 2 RADIUS + 1 rows of output it belongs to, which move on in
// registers. Every second band is taken from its foot up, as if the image stood on its head: two bands are then at the
// rows that both need at the same time, and these come from memory once.
#define STRIP 128
#define ROWS 100
#define WARPS 4
#define STAGES 8

__constant__ float taps[32];

__device__ __forceinline__ unsigned shared_address(const void *at)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void copy_four(float *to, const float *__restrict__ from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// Four pixels from column x on, of which those outside are the row's first or last.
__device__ __forceinline__ void copy_clamped(float *to, const float *__restrict__ row, int x, int width)
{
#pragma unroll
    for (int s = 0; s < 4; s++)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to + s)),
                     "l"(row + min(max(x + s, 0), width - 1))
                     : "memory");
}

// Rows `first` to `last` of those from `image` on, `stride` apart; `UP`: the image and the taps stand on their heads.
template <int RADIUS, bool UP>
__device__ __forceinline__ void march(const float *__restrict__ image, float *__restrict__ out, int height, int width,
                                      int stride, int first, int last)
{
    constexpr int HALO = (RADIUS + 3) / 4 * 4;
    constexpr int TAPS = 2 * RADIUS + 1;
    constexpr int WINDOW = 2 * HALO + 4;
    constexpr int PITCH = STRIP + 2 * HALO;
    extern __shared__ __align__(16) float staged[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = (blockIdx.x * WARPS + warp) * STRIP;
    if (strip >= width)
        return;
    float *const ring = staged + warp * (STAGES * PITCH);
    const int x = strip + 4 * lane;
    float4 sums[TAPS];
#pragma unroll
    for (int i = 0; i < TAPS; i++)
        sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    // The next row to be fetched, where it begins and its place in the ring. Only warps at the sides clamp columns.
    const bool inside = width % 4 == 0 && strip >= HALO && strip + STRIP + HALO <= width;
    int coming = first - RADIUS, place = 0, taken = 0;
    const float *row = image + static_cast<ptrdiff_t>(max(coming, 0)) * stride;
    const auto fetch = [&] {
        if (coming < last + RADIUS) {
            float *line = ring + place + 4 * lane;
            if (inside) {
                copy_four(line, row + (x - HALO));
                if (lane < HALO / 2)
                    copy_four(line + STRIP, row + (x - HALO + STRIP));
            } else {
                copy_clamped(line, row, x - HALO, width);
                if (lane < HALO / 2)
                    copy_clamped(line + STRIP, row, x - HALO + STRIP, width);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        row += coming >= 0 && coming < height - 1 ? stride : 0;
        coming++;
        place = place == (STAGES - 1) * PITCH ? 0 : place + PITCH;
    };
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        fetch();
    for (int y = first - RADIUS; y < last + RADIUS; y++) {
        // This row is there, and all lanes are done with the one before it, whose place the next to come takes.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp();
        fetch();
        const float *line = ring + taken;
        taken = taken == (STAGES - 1) * PITCH ? 0 : taken + PITCH;
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
            const float tap = taps[UP ? i : TAPS - 1 - i];
            sums[i] = make_float4(carried.x + tap * along.x, carried.y + tap * along.y, carried.z + tap * along.z,
                                  carried.w + tap * along.w);
        }
        const int done = y - RADIUS;
        if (done >= first && x < width) {
            float *to = out + static_cast<ptrdiff_t>(done) * stride + x;
            if (width % 4 == 0) {
                __stcs(reinterpret_cast<float4 *>(to), sums[0]);
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

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS, 5)
    blur(const float *__restrict__ image, float *__restrict__ out, int height, int width)
{
    const int first = blockIdx.y * ROWS, last = min(first + ROWS, height);
    const size_t foot = static_cast<size_t>(height - 1) * width;
    if (blockIdx.y % 2)
        march<RADIUS, true>(image + foot, out + foot, height, width, -width, height - last, height - first);
    else
        march<RADIUS, false>(image, out, height, width, width, first, last);
}
