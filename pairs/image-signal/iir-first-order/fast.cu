#define WARPS 8
#define THREADS (32 * WARPS)
#define CHUNKS 8
#define CHUNK (4 * THREADS)
#define TILE (CHUNKS * CHUNK)
#define FULL 0xffffffffu

__device__ __forceinline__ float4 load_four(const float *__restrict__ from, int at, int n)
{
    if (n % 4 == 0)
        return at < n ? __ldcs(reinterpret_cast<const float4 *>(from + at)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        v[k] = at + k < n ? from[at + k] : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

// Adds to each lane what the lanes before it leave over; `far` is what remains of a value after one lane.
__device__ __forceinline__ float upto(float value, float far, int lane)
{
#pragma unroll
    for (int k = 0; k < 5; k++) {
        const float other = __shfl_up_sync(FULL, value, 1 << k);
        if (lane >= 1 << k)
            value += far * other;
        far *= far;
    }
    return value;
}

// A block per channel has 8192 samples at once in registers, all loads on their way together. Lanes have four neighbours in
// each 128; each warp then carries the ends of all 64 such segments itself, after the only barrier.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    filter(const float *__restrict__ in, const float *__restrict__ decays, float *__restrict__ out, int channels, int n)
{
    __shared__ float2 ends[2][CHUNKS * WARPS / 2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, channel = blockIdx.x;
    const float *from = in + static_cast<size_t>(channel) * n;
    float *to = out + static_cast<size_t>(channel) * n;
    const float p1 = decays[channel], p2 = p1 * p1, p3 = p2 * p1, p4 = p2 * p2;
    float lane_power = 1.0f, whole = p4;
#pragma unroll
    for (int k = 0; k < 5; k++) {
        lane_power *= lane >> k & 1 ? whole : 1.0f;
        whole *= whole;
    }
    float before = 0.0f;
    for (int base = 0, tile = 0; base < n; base += TILE, tile ^= 1) {
        float4 y[CHUNKS];
        float start[CHUNKS];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            y[c] = load_four(from, base + c * CHUNK + static_cast<int>(threadIdx.x) * 4, n);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            y[c].y += p1 * y[c].x;
            y[c].z += p1 * y[c].y;
            y[c].w += p1 * y[c].z;
            const float end = upto(y[c].w, p4, lane);
            start[c] = __shfl_up_sync(FULL, end, 1);
            start[c] = lane > 0 ? start[c] : 0.0f;
            if (lane == 31)
                reinterpret_cast<float *>(ends[tile])[c * WARPS + warp] = end;
        }
        __syncthreads();
        // A lane has two neighbouring segments.
        const float2 two = ends[tile][lane];
        const float first = two.x + (lane == 0 ? whole * before : 0.0f);
        const float second = upto(two.y + whole * first, whole * whole, lane);
        float left = __shfl_up_sync(FULL, second, 1);
        left = lane > 0 ? left : before;
        const float middle = two.x + whole * left;
        before = __shfl_sync(FULL, second, 31);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const float carried = __shfl_sync(FULL, warp % 2 ? middle : left, (c * WARPS + warp) / 2);
            const float own = start[c] + lane_power * carried;
            const int at = base + c * CHUNK + static_cast<int>(threadIdx.x) * 4;
            const float4 result = make_float4(y[c].x + p1 * own, y[c].y + p2 * own, y[c].z + p3 * own, y[c].w + p4 * own);
            if (n % 4 == 0) {
                if (at < n)
                    __stcs(reinterpret_cast<float4 *>(to + at), result);
            } else {
                const float v[4] = {result.x, result.y, result.z, result.w};
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (at + k < n)
                        to[at + k] = v[k];
            }
        }
    }
}
