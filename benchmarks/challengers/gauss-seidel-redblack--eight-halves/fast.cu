// A warp marches down a strip of 128 columns, four to a lane, and carries up to eight half sweeps (red, black, ...) in
// registers: half sweep t relaxes row y - t - 1 when input row y arrives, so that two rounds read and write memory once.
// Rows come by cp.async, AHEAD of them on their way, each lane's quads to its own places: there is no barrier.
#define ROWS 224
#define WARPS 4
#define AHEAD 6
#define ROW_BYTES 512
#define RING (8 * ROW_BYTES)

// Four values of a row to shared memory; zeros past the grid.
template <bool ALIGNED>
__device__ __forceinline__ void copy_quad(unsigned to, const float *__restrict__ from, int y, int x, int height, int width)
{
    const bool inside = y >= 0 && y < height && x >= 0;
    const float *row = from + (inside ? static_cast<size_t>(y) * width : 0);
    if (ALIGNED) {
        const bool exists = inside && x < width;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(row + (exists ? x : 0)),
                     "r"(exists ? 16 : 0)
                     : "memory");
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const bool exists = inside && x + j < width;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to + 4 * j), "l"(row + (exists ? x + j : 0)),
                     "r"(exists ? 4 : 0)
                     : "memory");
    }
}

__device__ __forceinline__ float4 load_quad(unsigned from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from) : "memory");
    return v;
}

template <bool ALIGNED>
__device__ __forceinline__ void store_row(float *__restrict__ to, int y, int x, int width, float4 v)
{
    float *at = to + static_cast<size_t>(y) * width + x;
    if (ALIGNED) {
        __stcs(reinterpret_cast<float4 *>(at), v);
        return;
    }
    at[0] = v.x;
    if (x + 1 < width)
        at[1] = v.y;
    if (x + 2 < width)
        at[2] = v.z;
    if (x + 3 < width)
        at[3] = v.w;
}

__device__ __forceinline__ float relax(float a, float b, float c, float d, float f)
{
    return 0.25f * (a + b + c + d + f);
}

template <int HALVES>
struct Carried {
    float4 up[HALVES], mid[HALVES], source[HALVES];
};

struct Place {
    int x, height, width, first, last;
    bool keeps;
    unsigned inputs, sources;
};

template <bool ALIGNED>
__device__ __forceinline__ void request(const Place &at, const float *__restrict__ from, const float *__restrict__ f, int y)
{
    copy_quad<ALIGNED>(at.inputs + (y & 7) * ROW_BYTES, from, y, at.x, at.height, at.width);
    copy_quad<ALIGNED>(at.sources + ((y - 1) & 7) * ROW_BYTES, f, y - 1, at.x, at.height, at.width);
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Input row y, TURN steps after a multiple of HALVES, by which the ring of right sides has its place in registers. In one
// step all half sweeps relax the same columns, odd ones for even y. INNER: no cell is on the rim.
template <int HALVES, bool ALIGNED, bool INNER, int TURN>
__device__ __forceinline__ void advance(Carried<HALVES> &carried, const Place &at, const float *__restrict__ from,
                                        const float *__restrict__ f, float *__restrict__ to, int y)
{
    request<ALIGNED>(at, from, f, y + AHEAD);
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
    float4 fresh = load_quad(at.inputs + (y & 7) * ROW_BYTES);
    carried.source[TURN] = load_quad(at.sources + ((y - 1) & 7) * ROW_BYTES);
#pragma unroll
    for (int t = 0; t < HALVES; t++) {
        const int row = y - t - 1;
        const float4 source = carried.source[(TURN - t + HALVES) % HALVES];
        const float4 here = carried.mid[t], above = carried.up[t];
        float4 next = here;
        if (TURN % 2 == 0) {
            const float right = __shfl_down_sync(0xffffffffu, here.x, 1);
            const float y_new = relax(here.x, here.z, above.y, fresh.y, source.y);
            const float w_new = relax(here.z, right, above.w, fresh.w, source.w);
            const bool rows = INNER || (row > 0 && row < at.height - 1);
            next.y = INNER || (rows && at.x + 1 > 0 && at.x + 1 < at.width - 1) ? y_new : here.y;
            next.w = INNER || (rows && at.x + 3 > 0 && at.x + 3 < at.width - 1) ? w_new : here.w;
        } else {
            const float left = __shfl_up_sync(0xffffffffu, here.w, 1);
            const float x_new = relax(left, here.y, above.x, fresh.x, source.x);
            const float z_new = relax(here.y, here.w, above.z, fresh.z, source.z);
            const bool rows = INNER || (row > 0 && row < at.height - 1);
            next.x = INNER || (rows && at.x > 0 && at.x < at.width - 1) ? x_new : here.x;
            next.z = INNER || (rows && at.x + 2 > 0 && at.x + 2 < at.width - 1) ? z_new : here.z;
        }
        carried.up[t] = here;
        carried.mid[t] = fresh;
        fresh = next;
    }
    const int done = y - HALVES;
    if (done >= at.first && done < at.last && at.keeps)
        store_row<ALIGNED>(to, done, at.x, at.width, fresh);
}

template <int HALVES, bool ALIGNED, bool INNER, int TURN>
__device__ __forceinline__ void steps(Carried<HALVES> &carried, const Place &at, const float *__restrict__ from,
                                      const float *__restrict__ f, float *__restrict__ to, int y)
{
    advance<HALVES, ALIGNED, INNER, TURN>(carried, at, from, f, to, y + TURN);
    if constexpr (TURN + 1 < HALVES)
        steps<HALVES, ALIGNED, INNER, TURN + 1>(carried, at, from, f, to, y);
}

template <int HALVES, bool ALIGNED, bool INNER>
__device__ __forceinline__ void march(const Place &at, const float *__restrict__ from, const float *__restrict__ f,
                                      float *__restrict__ to)
{
    Carried<HALVES> carried;
#pragma unroll
    for (int t = 0; t < HALVES; t++)
        carried.up[t] = carried.mid[t] = carried.source[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int begin = at.first - HALVES;
    for (int d = 0; d < AHEAD; d++)
        request<ALIGNED>(at, from, f, begin + d);
#pragma unroll 1
    for (int y = begin; y < at.last + HALVES; y += HALVES)
        steps<HALVES, ALIGNED, INNER, 0>(carried, at, from, f, to, y);
    asm volatile("cp.async.wait_all;" ::: "memory");
}

template <int HALVES>
__device__ __forceinline__ void relax_halves(const float *__restrict__ from, const float *__restrict__ f,
                                             float *__restrict__ to, int height, int width)
{
    extern __shared__ __align__(128) unsigned char rings[];
    constexpr int HALO = HALVES / 4, STRIP = 128 - 2 * HALVES;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, strip = (blockIdx.x * WARPS + warp) * STRIP;
    if (strip >= width)
        return;
    Place at;
    at.x = strip + 4 * (lane - HALO);
    at.height = height;
    at.width = width;
    at.first = blockIdx.y * ROWS;
    at.last = min(at.first + ROWS, height);
    at.keeps = lane >= HALO && lane < 32 - HALO && at.x < width;
    at.inputs = static_cast<unsigned>(__cvta_generic_to_shared(rings)) + warp * (2 * RING) + 16 * lane;
    at.sources = at.inputs + RING;
    const bool inner = strip >= 4 * HALO + 4 && strip + 128 - 4 * HALO < width && at.first > 2 * HALVES + 1 &&
                       at.last + HALVES + 2 < height;
    if (width % 4 != 0)
        march<HALVES, false, false>(at, from, f, to);
    else if (inner)
        march<HALVES, true, true>(at, from, f, to);
    else
        march<HALVES, true, false>(at, from, f, to);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    relax_twice(const float *__restrict__ from, const float *__restrict__ f, float *__restrict__ to, int height,
                int width)
{
    relax_halves<4>(from, f, to, height, width);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    relax_four_times(const float *__restrict__ from, const float *__restrict__ f, float *__restrict__ to, int height,
                     int width)
{
    relax_halves<8>(from, f, to, height, width);
}
