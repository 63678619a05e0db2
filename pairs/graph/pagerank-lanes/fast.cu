#define THREADS 256
#define LANES 8
#define SORTERS 512
#define WARPS (SORTERS / 32)
#define BUCKETS 1024
#define GROUPS 8
#define TILE (SORTERS * GROUPS * 4)
#define FULL 0xffffffffu

// The sum of the values of the threads before this one. All threads must call it.
__device__ __forceinline__ int block_exclusive(int value, int *sums)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int upto = value;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, upto, distance);
        if (lane >= distance)
            upto += other;
    }
    __syncthreads();
    if (lane == 31)
        sums[warp] = upto;
    __syncthreads();
    int before = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        before += w < warp ? sums[w] : 0;
    return before + upto - value;
}

__device__ __forceinline__ int4 four(const int *__restrict__ sources, int first, int edges)
{
    if (first + 4 <= edges)
        return __ldcs(reinterpret_cast<const int4 *>(sources + first));
    return make_int4(first < edges ? sources[first] : -1, first + 1 < edges ? sources[first + 1] : -1,
                     first + 2 < edges ? sources[first + 2] : -1, -1);
}

__device__ __forceinline__ void count_four(int *counts, const int4 &source, int shift)
{
    const int s[4] = {source.x, source.y, source.z, source.w};
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (s[k] >= 0)
            atomicAdd(counts + (s[k] >> shift), 1);
}

// Out-degrees are counted without an atomic in memory for each edge: sources go to buckets of neighbouring nodes, two bytes
// each, and a block counts a bucket in shared memory. First, how many each bucket has; the last block makes of it
// where the buckets begin.
extern "C" __global__ void __launch_bounds__(SORTERS)
    count_buckets(const int *__restrict__ sources, int *counts, int *cursors, int *done, int edges, int shift)
{
    __shared__ int own[BUCKETS];
    __shared__ int sums[WARPS];
    __shared__ bool last;
    for (int b = threadIdx.x; b < BUCKETS; b += SORTERS)
        own[b] = 0;
    __syncthreads();
    const int stride = gridDim.x * SORTERS * 4;
#pragma unroll 4
    for (int first = (blockIdx.x * SORTERS + threadIdx.x) * 4; first < edges; first += stride)
        count_four(own, four(sources, first, edges), shift);
    __syncthreads();
    for (int b = threadIdx.x; b < BUCKETS; b += SORTERS)
        if (own[b] > 0)
            atomicAdd(counts + b, own[b]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(done, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    const int2 pair = __ldcg(reinterpret_cast<const int2 *>(counts) + threadIdx.x);
    const int before = block_exclusive(pair.x + pair.y, sums);
    reinterpret_cast<int2 *>(cursors)[threadIdx.x] = make_int2(before, before + pair.x);
}

struct Stage {
    unsigned short nodes[TILE];
    unsigned short bucket[TILE];
    int counts[BUCKETS];
    int away[BUCKETS];
    int sums[WARPS];
};

// A tile's sources are sorted by bucket in shared memory and go out in runs.
extern "C" __global__ void __launch_bounds__(SORTERS, 2)
    partition(const int *__restrict__ sources, int *cursors, unsigned short *__restrict__ mixed, int edges, int shift)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Stage &stage = *reinterpret_cast<Stage *>(memory);
    const int base = blockIdx.x * TILE, size = min(TILE, edges - base);
    int4 source[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        source[g] = four(sources, base + (g * SORTERS + threadIdx.x) * 4, edges);
    for (int b = threadIdx.x; b < BUCKETS; b += SORTERS)
        stage.counts[b] = 0;
    __syncthreads();
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        count_four(stage.counts, source[g], shift);
    __syncthreads();
    const int one = stage.counts[2 * threadIdx.x], two = stage.counts[2 * threadIdx.x + 1];
    const int before = block_exclusive(one + two, stage.sums);
    stage.counts[2 * threadIdx.x] = before;
    stage.counts[2 * threadIdx.x + 1] = before + one;
    if (one > 0)
        stage.away[2 * threadIdx.x] = atomicAdd(cursors + 2 * threadIdx.x, one) - before;
    if (two > 0)
        stage.away[2 * threadIdx.x + 1] = atomicAdd(cursors + 2 * threadIdx.x + 1, two) - before - one;
    __syncthreads();
    const int mask = (1 << shift) - 1;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const int s[4] = {source[g].x, source[g].y, source[g].z, source[g].w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (s[k] >= 0) {
                const int place = atomicAdd(stage.counts + (s[k] >> shift), 1);
                stage.nodes[place] = s[k] & mask;
                stage.bucket[place] = s[k] >> shift;
            }
        }
    }
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x; i < size; i += SORTERS)
        mixed[stage.away[stage.bucket[i]] + i] = stage.nodes[i];
}

// A block has a bucket, which now ends at its cursor.
extern "C" __global__ void __launch_bounds__(SORTERS)
    invert(const int *__restrict__ cursors, const unsigned short *__restrict__ mixed, float *__restrict__ inverse,
           float *__restrict__ shares, int nodes, int shift)
{
    extern __shared__ int degrees[];
    const int width = 1 << shift, base = blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += SORTERS)
        degrees[i] = 0;
    __syncthreads();
    const int first = blockIdx.x > 0 ? cursors[blockIdx.x - 1] : 0, last = cursors[blockIdx.x];
    // Whole words of eight sources between the ends.
    const int even = min((first + 7) / 8 * 8, last), words = (last - even) / 8;
    for (int i = first + threadIdx.x; i < even; i += SORTERS)
        atomicAdd(degrees + mixed[i], 1);
#pragma unroll 2
    for (int w = threadIdx.x; w < words; w += SORTERS) {
        const uint4 eight = __ldcs(reinterpret_cast<const uint4 *>(mixed + even) + w);
        const unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            atomicAdd(degrees + (pairs[k] & 0xffff), 1);
            atomicAdd(degrees + (pairs[k] >> 16), 1);
        }
    }
    for (int i = even + words * 8 + threadIdx.x; i < last; i += SORTERS)
        atomicAdd(degrees + mixed[i], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < width && base + i < nodes; i += SORTERS) {
        const float value = degrees[i] > 0 ? 1.0f / degrees[i] : 0.0f;
        inverse[base + i] = value;
        shares[base + i] = value;
    }
}

__device__ __forceinline__ float gather_part(const int *__restrict__ sources, const float *__restrict__ shares,
                                             int edge, int end, int stride)
{
    float sum = 0.0f;
    for (; edge + 3 * stride < end; edge += 4 * stride) {
        int source[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            source[u] = __ldcs(sources + edge + u * stride);
#pragma unroll
        for (int u = 0; u < 4; u++)
            sum += shares[source[u]];
    }
    for (; edge < end; edge += stride)
        sum += shares[__ldcs(sources + edge)];
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const int *__restrict__ offsets, const int *__restrict__ sources, const float *__restrict__ shares,
           const float *__restrict__ inverse, float *__restrict__ next_shares, float *__restrict__ rank, int nodes,
           float damping)
{
    const int lane = threadIdx.x % 32, part = lane % LANES;
    const int node = (blockIdx.x * THREADS + threadIdx.x) / LANES;
    int begin = 0, end = 0;
    if (node < nodes) {
        begin = offsets[node];
        end = offsets[node + 1];
    }
    const bool heavy = end - begin > 32 * LANES;
    float sum = heavy ? 0.0f : gather_part(sources, shares, begin + part, end, LANES);
    unsigned pending = __ballot_sync(FULL, heavy && part == 0);
    while (pending != 0) {
        const int owner = __ffs(pending) - 1;
        const int heavy_begin = __shfl_sync(FULL, begin, owner);
        const int heavy_end = __shfl_sync(FULL, end, owner);
        const float piece = gather_part(sources, shares, heavy_begin + lane, heavy_end, 32);
        float total = piece;
#pragma unroll
        for (int distance = 16; distance >= LANES; distance /= 2)
            total += __shfl_xor_sync(FULL, total, distance);
        if (lane / LANES == owner / LANES)
            sum = total;
        pending &= pending - 1;
    }
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(FULL, sum, distance);
    if (part == 0 && node < nodes) {
        const float value = (1.0f - damping) + damping * sum;
        rank[node] = value;
        next_shares[node] = value * inverse[node];
    }
}
