#define THREADS 256
#define UNROLL 4

typedef unsigned long long word;

__device__ __forceinline__ word pack(int value, int place)
{
    return (static_cast<word>(static_cast<unsigned>(value) ^ 0x80000000u) << 32) | (~static_cast<unsigned>(place));
}

__device__ __forceinline__ void consider(int value, int at, int &best, int &place)
{
    if (value > best) {
        best = value;
        place = at;
    }
}

__device__ __forceinline__ void consider4(int4 v, int at, int &best, int &place)
{
    consider(v.x, at, best, place);
    consider(v.y, at + 1, best, place);
    consider(v.z, at + 2, best, place);
    consider(v.w, at + 3, best, place);
}

__device__ word block_max(word key)
{
    __shared__ word part[THREADS / 32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        key = max(key, __shfl_down_sync(0xffffffffu, key, distance));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = key;
    __syncthreads();
    if (threadIdx.x < 32) {
        key = threadIdx.x < THREADS / 32 ? part[threadIdx.x] : 0;
#pragma unroll
        for (int distance = THREADS / 64; distance > 0; distance /= 2)
            key = max(key, __shfl_down_sync(0xffffffffu, key, distance));
    }
    return key;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    argmax(const int *__restrict__ values, word *__restrict__ parts, int n)
{
    const int4 *packed = reinterpret_cast<const int4 *>(values);
    const int quads = n / 4;
    const int stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    int best = values[0], place = 0;
    for (; i + (UNROLL - 1) * stride < quads; i += UNROLL * stride) {
        int4 load[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            load[u] = __ldcs(packed + i + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            consider4(load[u], 4 * (i + u * stride), best, place);
    }
    for (; i < quads; i += stride)
        consider4(packed[i], 4 * i, best, place);
    if (blockIdx.x == 0 && threadIdx.x < n % 4)
        consider(values[4 * quads + threadIdx.x], 4 * quads + threadIdx.x, best, place);
    const word key = block_max(pack(best, place));
    if (threadIdx.x == 0)
        parts[blockIdx.x] = key;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    finish(const word *__restrict__ parts, int *__restrict__ best, int *__restrict__ place, int count)
{
    word key = 0;
    for (int i = threadIdx.x; i < count; i += THREADS)
        key = max(key, parts[i]);
    key = block_max(key);
    if (threadIdx.x == 0) {
        *best = static_cast<int>(static_cast<unsigned>(key >> 32) ^ 0x80000000u);
        *place = static_cast<int>(~static_cast<unsigned>(key));
    }
}
