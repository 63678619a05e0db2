#include <cuda_bf16.h>

#define STATES 16
#define GROUPS 4
#define OWN (STATES / GROUPS)
#define THREADS 128
#define CHANNELS (THREADS / GROUPS)
#define TILE 64
#define STEP_PITCH (2 * TILE + 4)
#define SUM_PITCH (TILE + 4)
#define LOG2E 1.4426950408889634f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ uint4 load(const bf16 *__restrict__ from, int t, int length, bool there)
{
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (!there)
        return eight;
    if (length % 8 == 0)
        return t < length ? *reinterpret_cast<const uint4 *>(from + t) : eight;
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (t + j < length)
            reinterpret_cast<unsigned *>(&eight)[j / 2] |= static_cast<unsigned>(__bfloat16_as_ushort(from[t + j]))
                                                           << j % 2 * 16;
    return eight;
}

__device__ __forceinline__ float value_of(const uint4 &eight, int j)
{
    const unsigned word = reinterpret_cast<const unsigned *>(&eight)[j / 2];
    return __uint_as_float(j % 2 ? word & 0xffff0000u : word << 16);
}

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log_of_2(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// log(1 + exp(x)); of a small exponential the beginning of its series, as 1 + exp(x) would lose it.
__device__ __forceinline__ float softplus(float x)
{
    const float e = power_of_2(x * LOG2E);
    const float small = e * fmaf(e, fmaf(e, 0.33333333f, -0.5f), 1.0f);
    return x > 20.0f ? x : e < 0.01f ? small : log_of_2(1.0f + e) * 0.69314718f;
}

// Where four states of a group lie at a time; groups are turned with every eighth, so that writers of a state meet in
// few banks.
__device__ __forceinline__ int place(int t, int group)
{
    return t * STATES + (group + t / 8) % GROUPS * OWN;
}

// Four lanes walk through the time of a channel, four states each in registers: one exponential and four other
// operations a state and step, where a scan over time takes three times as many. Tiles of 64 steps pass through shared
// memory: there steps and inputs are made ready, and the sums over states turned for whole rows. A warp does so for its
// own channels; only the factors are for all warps, in two buffers, so that one barrier a tile will do.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    selective_scan(const bf16 *__restrict__ u, const bf16 *__restrict__ delta, const float *__restrict__ a,
                   const bf16 *__restrict__ b, const bf16 *__restrict__ c, const float *__restrict__ skip,
                   bf16 *__restrict__ y, int channels, int length)
{
    __shared__ __align__(16) float steps[CHANNELS * STEP_PITCH], sums[CHANNELS * SUM_PITCH];
    __shared__ __align__(16) float left_tiles[2][TILE * STATES], right_tiles[2][TILE * STATES];
    const int across = (channels + CHANNELS - 1) / CHANNELS, batch = blockIdx.x / across;
    const int first = blockIdx.x % across * CHANNELS;
    const int lane = threadIdx.x / GROUPS, group = threadIdx.x % GROUPS;
    const size_t rows = static_cast<size_t>(batch) * channels + first;

    // A thread brings eight steps of a state, and of two of its warp's channels.
    const int brought_state = threadIdx.x / 8, brought_t = threadIdx.x % 8 * 8;
    const int brought_channel = threadIdx.x / 32 * (CHANNELS / 4) + threadIdx.x % 32 / 8;
    const size_t state_row = (static_cast<size_t>(batch) * STATES + brought_state) * length;
    float direct[2];
    bool there[2];
    uint4 input[2], gap[2], left, right;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int channel = brought_channel + 4 * i;
        there[i] = first + channel < channels;
        direct[i] = there[i] ? skip[first + channel] : 0.0f;
        input[i] = load(u + (rows + channel) * length, brought_t, length, there[i]);
        gap[i] = load(delta + (rows + channel) * length, brought_t, length, there[i]);
    }
    left = load(b + state_row, brought_t, length, true);
    right = load(c + state_row, brought_t, length, true);

    float rate[OWN], state[OWN] = {};
#pragma unroll
    for (int s = 0; s < OWN; s++)
        rate[s] = first + lane < channels ? a[(first + lane) * STATES + group * OWN + s] * LOG2E : 0.0f;

    // Steps past the end are nobody's: what states become there is not read.
    for (int tile = 0; tile < length; tile += TILE) {
        const int t = tile + brought_t, buffer = tile / TILE % 2;
        float *lefts = left_tiles[buffer], *rights = right_tiles[buffer];
        uint4 kept[2] = {input[0], input[1]};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float *to = steps + (brought_channel + 4 * i) * STEP_PITCH + brought_t * 2;
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                const float one = softplus(value_of(gap[i], j)), two = softplus(value_of(gap[i], j + 1));
                *reinterpret_cast<float4 *>(to + 2 * j) =
                    make_float4(one, one * value_of(input[i], j), two, two * value_of(input[i], j + 1));
            }
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int at = place(brought_t + j, brought_state / OWN) + brought_state % OWN;
            lefts[at] = value_of(left, j);
            rights[at] = value_of(right, j);
        }
        __syncthreads();
        if (tile + TILE < length) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int channel = brought_channel + 4 * i;
                input[i] = load(u + (rows + channel) * length, t + TILE, length, there[i]);
                gap[i] = load(delta + (rows + channel) * length, t + TILE, length, there[i]);
            }
            left = load(b + state_row, t + TILE, length, true);
            right = load(c + state_row, t + TILE, length, true);
        }

        const float *own_steps = steps + lane * STEP_PITCH;
#pragma unroll 1
        for (int eight = 0; eight < TILE; eight += 8) {
            const float *lows = lefts + place(eight, group), *highs = rights + place(eight, group);
            const float *ready = own_steps + 2 * eight;
            float sum[8] = {};
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                const float4 both = *reinterpret_cast<const float4 *>(ready + 2 * j);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float step = e ? both.z : both.x, in = e ? both.w : both.y;
                    const float4 l = *reinterpret_cast<const float4 *>(lows + (j + e) * STATES);
                    const float4 r = *reinterpret_cast<const float4 *>(highs + (j + e) * STATES);
                    const float by[OWN] = {l.x, l.y, l.z, l.w}, out[OWN] = {r.x, r.y, r.z, r.w};
#pragma unroll
                    for (int s = 0; s < OWN; s++) {
                        state[s] = fmaf(power_of_2(step * rate[s]), state[s], by[s] * in);
                        sum[j + e] = fmaf(state[s], out[s], sum[j + e]);
                    }
                }
            }
            // Each of the four lanes ends with the sums over all states for two of the eight steps.
            const bool upper = group & 2, odd = group & 1;
            float half[4], whole[2];
#pragma unroll
            for (int j = 0; j < 4; j++)
                half[j] = (upper ? sum[j + 4] : sum[j]) + __shfl_xor_sync(ALL, upper ? sum[j] : sum[j + 4], 2);
#pragma unroll
            for (int j = 0; j < 2; j++)
                whole[j] = (odd ? half[j + 2] : half[j]) + __shfl_xor_sync(ALL, odd ? half[j] : half[j + 2], 1);
            *reinterpret_cast<float2 *>(sums + lane * SUM_PITCH + eight + 2 * group) = make_float2(whole[0], whole[1]);
        }
        __syncwarp();

#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int channel = brought_channel + 4 * i;
            const float *from = sums + channel * SUM_PITCH + brought_t;
            bf16 *to = y + (rows + channel) * length + t;
            if (!there[i] || t >= length)
                continue;
            if (length % 8 == 0) {
                uint4 result;
#pragma unroll
                for (int j = 0; j < 8; j += 2)
                    reinterpret_cast<__nv_bfloat162 *>(&result)[j / 2] =
                        __floats2bfloat162_rn(fmaf(direct[i], value_of(kept[i], j), from[j]),
                                              fmaf(direct[i], value_of(kept[i], j + 1), from[j + 1]));
                *reinterpret_cast<uint4 *>(to) = result;
                continue;
            }
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (t + j < length)
                    to[j] = __float2bfloat16(fmaf(direct[i], value_of(kept[i], j), from[j]));
        }
    }
}
