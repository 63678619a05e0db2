#define THREADS 512
#define WARPS (THREADS / 32)
#define HELD 16
#define KEPT 16
#define GROUP 2
#define SLOTS 28
#define ALL 0xffffffffu

typedef unsigned long long word;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void prepare(word *ready)
{
    for (int slot = 0; slot < SLOTS; slot++)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(ready + slot)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A bulk copy that its barrier counts.
__device__ __forceinline__ void bring(float4 *slot, const float *__restrict__ from, int bytes, word *ready)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                     shared_address(ready)),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(slot)),
                 "l"(from), "r"(bytes), "r"(shared_address(ready))
                 : "memory");
}

// Piece `piece` of what this block will read, in its place in the ring.
__device__ __forceinline__ void request(float4 *ring, word *ready, const float *__restrict__ mine, size_t stride,
                                        int piece, int pieces, int turns, int quads)
{
    const int turn = piece / pieces, at = piece % pieces * THREADS, slot = piece % SLOTS;
    if (turn < turns)
        bring(ring + slot * THREADS, mine + turn * stride + 4 * at, 16 * min(THREADS, quads - at), ready + slot);
}

__device__ __forceinline__ void wait_for(word *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

__device__ __forceinline__ float2 warp_sums(float2 value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    return value;
}

__device__ __forceinline__ float2 block_sums(float2 mine, float2 *parts)
{
    mine = warp_sums(mine);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    return warp_sums(threadIdx.x % 32 < WARPS ? parts[threadIdx.x % 32] : make_float2(0.0f, 0.0f));
}

__device__ __forceinline__ void step(unsigned &slot, unsigned &parity)
{
    if (++slot == SLOTS) {
        slot = 0;
        parity ^= 1;
    }
}

__device__ __forceinline__ void add(float2 &sums, float value, float pivot)
{
    const float off = value - pivot;
    sums.x += off;
    sums.y = fmaf(off, off, sums.y);
}

__device__ __forceinline__ void add_quad(float2 (&sums)[2], const float4 &quad, float pivot)
{
    add(sums[0], quad.x, pivot);
    add(sums[1], quad.y, pivot);
    add(sums[0], quad.z, pivot);
    add(sums[1], quad.w, pivot);
}

__device__ __forceinline__ float4 normal(const float4 &v, float mean, float scale)
{
    return make_float4((v.x - mean) * scale, (v.y - mean) * scale, (v.z - mean) * scale, (v.w - mean) * scale);
}

// Resident blocks, each with every so many rows. The first HELD pieces of a row wait in registers and the others in the
// ring, so that a row is read once and the next row's pieces are under way all the time. Sums of the distance from the
// row's first value and of its square, so that mean and variance take one barrier.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    standardize(const float *__restrict__ values, float *__restrict__ out, int rows, int cols, float eps)
{
    extern __shared__ float4 ring[];
    __shared__ float2 parts[2][WARPS];
    __shared__ word ready[SLOTS];
    const int blocks = gridDim.x, turns = (rows - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const size_t stride = static_cast<size_t>(blocks) * cols;
    const bool held = cols % 4 == 0 && cols <= 4 * (HELD + KEPT) * THREADS;
    const int quads = held ? cols / 4 : 0, pieces = (quads + THREADS - 1) / THREADS, front = min(HELD, pieces);
    const float *from = values + static_cast<size_t>(blockIdx.x) * cols;
    float *to = out + static_cast<size_t>(blockIdx.x) * cols;
    if (threadIdx.x == 0)
        prepare(ready);
    __syncthreads();
    if (threadIdx.x < min(SLOTS, turns * pieces))
        request(ring, ready, from, stride, threadIdx.x, pieces, turns, quads);
    float pivot = from[0];
    unsigned slot = 0, parity = 0;
    for (int turn = 0; turn < turns; turn++) {
        float2 sums[2] = {};
        float4 own[HELD];
        const int later = turn * pieces + SLOTS + threadIdx.x;
        unsigned stays = 0;
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (u < pieces) {
                    if (threadIdx.x + u * THREADS < quads) {
                        wait_for(ready + slot, parity);
                        own[u] = ring[slot * THREADS + threadIdx.x];
                    }
                    step(slot, parity);
                }
            // All warps have read these pieces: others may come in their places.
            __syncthreads();
            if (threadIdx.x < front)
                request(ring, ready, from, stride, later, pieces, turns, quads);
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < quads)
                    add_quad(sums, own[u], pivot);
            stays = slot;
#pragma unroll
            for (int u = HELD; u < HELD + KEPT; u++)
                if (u < pieces) {
                    if (threadIdx.x + u * THREADS < quads) {
                        wait_for(ready + slot, parity);
                        add_quad(sums, ring[slot * THREADS + threadIdx.x], pivot);
                    }
                    step(slot, parity);
                }
        } else {
            for (int i = threadIdx.x; i < cols; i += THREADS)
                add(sums[0], from[turn * stride + i], pivot);
        }
        const float2 total = block_sums(make_float2(sums[0].x + sums[1].x, sums[0].y + sums[1].y), parts[turn % 2]);
        const float off = total.x / cols, mean = pivot + off;
        const float scale = rsqrtf(fmaxf(0.0f, total.y / cols - off * off) + eps);
        if (turn + 1 < turns)
            pivot = from[(turn + 1) * stride];
        if (held) {
            float4 *results = reinterpret_cast<float4 *>(to);
#pragma unroll
            for (int group = HELD; group < HELD + KEPT; group += GROUP) {
#pragma unroll
                for (int u = group; u < group + GROUP; u++)
                    if (u < pieces) {
                        const int i = threadIdx.x + u * THREADS;
                        if (i < quads)
                            __stcs(results + i, normal(ring[stays * THREADS + threadIdx.x], mean, scale));
                        stays = stays + 1 == SLOTS ? 0 : stays + 1;
                    }
                __syncthreads();
                if (threadIdx.x < min(GROUP, pieces - group))
                    request(ring, ready, from, stride, later + group, pieces, turns, quads);
            }
#pragma unroll
            for (int u = 0; u < HELD; u++) {
                const int i = threadIdx.x + u * THREADS;
                if (i < quads)
                    __stcs(results + i, normal(own[u], mean, scale));
            }
        } else {
            for (int i = threadIdx.x; i < cols; i += THREADS)
                to[i] = (from[turn * stride + i] - mean) * scale;
        }
        to += stride;
    }
}
