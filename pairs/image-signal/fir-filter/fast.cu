#include <cuda_fp16.h>

// The filter on tensor cores: 16 windows of samples, 64 outputs each, times a band matrix of taps that stays in registers.
// Samples and taps are two halves each, 22 bits together, and three of the four products are made. Samples come by
// asynchronous copies, STAGES - 1 tiles ahead and the warp's own. The order of a window's samples and of the columns is
// free; it is chosen so that all loads and stores are 16 bytes wide.
#define WARPS 4
#define STAGES 3
#define EACH 64
#define TILE (16 * EACH)
#define MAX_TAPS 128
#define FULL 0xffffffffu
// Outside these, two halves do not hold a number well enough, and a tile is filtered in single precision.
#define LEAST 0.015625f
#define MOST 32768.0f

__constant__ float taps[MAX_TAPS];

__device__ __forceinline__ unsigned shared_address(const void *at)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// Where four samples stand: 16 such further on the other half of 128 bytes comes first, so that lanes meet different banks.
__device__ __forceinline__ int place_of(int quad)
{
    return quad ^ quad / 16 % 2 * 4;
}

struct Parts {
    unsigned high, low;
};

__device__ __forceinline__ Parts split(float x, float y)
{
    const half2 high = __floats2half2_rn(x, y);
    const float2 back = __half22float2(high);
    const half2 low = __floats2half2_rn(x - back.x, y - back.y);
    return {*reinterpret_cast<const unsigned *>(&high), *reinterpret_cast<const unsigned *>(&low)};
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ float most_of(float most, float4 v)
{
    return fmaxf(fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
}

__device__ __forceinline__ bool holds(float most)
{
    return most == 0.0f || (most >= LEAST && most <= MOST);
}

// A tile's samples, COUNT of them before its first output's, zeros outside the signal.
template <int COUNT>
__device__ __forceinline__ void fetch(float4 *line, const float *__restrict__ signal, long long first, int n)
{
    constexpr int QUADS = (TILE + COUNT) / 4;
    const int lane = threadIdx.x % 32;
    if (first >= COUNT && first + TILE <= n) {
        const float *from = signal + (first - COUNT + 4 * lane);
        float4 *to = line + place_of(lane);
#pragma unroll
        for (int k = 0; k < QUADS; k += 32)
            if (k + 32 <= QUADS || lane < QUADS - k)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + k)), "l"(from + 4 * k)
                             : "memory");
        return;
    }
#pragma unroll 1
    for (int at = lane; at < 4 * QUADS; at += 32) {
        const long long i = first - COUNT + at;
        reinterpret_cast<float *>(line)[4 * place_of(at / 4) + at % 4] = i >= 0 && i < n ? signal[i] : 0.0f;
    }
}

template <int COUNT>
__global__ void __launch_bounds__(32 * WARPS, 4)
    fir(const float *__restrict__ signal, float *__restrict__ out, int n)
{
    static_assert(COUNT % 16 == 0 && COUNT <= MAX_TAPS);
    constexpr int BANDS = COUNT / 16 + 1, STEPS = EACH / 16 + COUNT / 16, QUADS = (TILE + COUNT) / 4;
    extern __shared__ float4 staged[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, part = lane % 4;
    float4 *const ring = staged + warp * (STAGES * QUADS);
    const int tiles = (n + TILE - 1) / TILE, stride = gridDim.x * WARPS;
    int tile = blockIdx.x * WARPS + warp;
    if (tile >= tiles)
        return;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * stride < tiles)
            fetch<COUNT>(ring + s * QUADS, signal, static_cast<long long>(tile + s * stride) * TILE, n);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    // Column c of part j of 16 outputs is output 4 (c / 2) + 2 j + c % 2; sixteen samples further left is a band further.
    unsigned high[BANDS][2][2], low[BANDS][2][2];
    float most_taps = 0.0f;
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        most_taps = fmaxf(most_taps, fabsf(taps[k]));
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int at = 4 * (row / 2) + 2 * j + row % 2 + COUNT - 16 * band - 4 * part - 2 * h;
                const Parts two = split(at >= 0 && at < COUNT ? taps[at] : 0.0f,
                                        at - 1 >= 0 && at - 1 < COUNT ? taps[at - 1] : 0.0f);
                high[band][j][h] = two.high;
                low[band][j][h] = two.low;
            }
    int stage = 0;
#pragma unroll 1
    for (; tile < tiles; tile += stride) {
        // This tile is there, and all lanes are done with the one before it, whose place the next to come takes.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp();
        const int coming = tile + (STAGES - 1) * stride;
        if (coming < tiles)
            fetch<COUNT>(ring + (stage == 0 ? STAGES - 1 : stage - 1) * QUADS, signal, static_cast<long long>(coming) * TILE, n);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const float4 *line = ring + stage * QUADS;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        const long long first = static_cast<long long>(tile) * TILE;
        float sum[EACH / 16][2][4] = {};
        float most = 0.0f;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            // Rows `row` and `row + 8` are windows EACH samples apart.
            const int quad = row * (EACH / 4) + 4 * s + part;
            const float4 upper = line[place_of(quad)], lower = line[place_of(quad) + 8 * (EACH / 4)];
            most = most_of(most_of(most, upper), lower);
            const Parts two[4] = {split(upper.x, upper.y), split(lower.x, lower.y), split(upper.z, upper.w),
                                  split(lower.z, lower.w)};
            const unsigned highs[4] = {two[0].high, two[1].high, two[2].high, two[3].high};
            const unsigned lows[4] = {two[0].low, two[1].low, two[2].low, two[3].low};
#pragma unroll
            for (int part16 = 0; part16 < EACH / 16; part16++) {
                const int band = s - part16;
                if (band < 0 || band >= BANDS)
                    continue;
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    multiply(sum[part16][j], lows, high[band][j]);
                    multiply(sum[part16][j], highs, low[band][j]);
                    multiply(sum[part16][j], highs, high[band][j]);
                }
            }
        }
        if (__any_sync(FULL, !holds(most) || !holds(most_taps))) {
            const float *samples = reinterpret_cast<const float *>(line);
#pragma unroll 1
            for (int i = lane; i < TILE && first + i < n; i += 32) {
                float exact = 0.0f;
#pragma unroll 1
                for (int k = 0; k < COUNT; k++) {
                    const int at = COUNT + i - k;
                    exact += taps[k] * samples[4 * place_of(at / 4) + at % 4];
                }
                out[first + i] = exact;
            }
            continue;
        }
        float *to = out + first + row * EACH + 4 * part;
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int part16 = 0; part16 < EACH / 16; part16++) {
                const int at = 8 * h * EACH + 16 * part16;
                const float four[4] = {sum[part16][0][2 * h], sum[part16][0][2 * h + 1], sum[part16][1][2 * h],
                                       sum[part16][1][2 * h + 1]};
                if (first + TILE <= n) {
                    __stcs(reinterpret_cast<float4 *>(to + at), make_float4(four[0], four[1], four[2], four[3]));
                } else {
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if (first + row * EACH + 4 * part + at + e < n)
                            to[at + e] = four[e];
                }
            }
    }
}
