// Two blocks of 128 queries a multiprocessor hide each other's starts and ends. Queries stay in registers; no warps
// only copy: the last group in turn asks for the tiles to come, when both have left those before. Weights are measured
// by the largest score of the first tile, which takes no maxima and no rescaling in all others; a block whose weights
// grow too large begins again with running maxima.
#include <cuda.h>
#include <cuda_bf16.h>

#define DIM 64
#define GROUPS 2
#define THREADS (128 * GROUPS)
#define QUERIES (64 * GROUPS)
#define KEYS 64
#define STAGES 4
#define TILE_BYTES (KEYS * 128)
#define QUERY_BYTES (QUERIES * 128)
#define ORDER 0x40000040
#define LOG2E 1.4426950408889634f
#define LOWEST -1.0e30f
// Beyond this sum of weights a block begins again.
#define MOST 1.0e30f
#define ALL 0xffffffffu
// Heads whose longest lists come first, and the most lists that are put in order.
#define TOGETHER 16
#define MOST_LISTS 1024

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void multiply_queries(float (&d)[32], const unsigned *a, unsigned b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        ".reg .b64 right;\n"
        "mov.b64 right, {%36, %38};\n"
        "setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, right, adds, 1, 1, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(adds), "r"(ORDER));
}

__device__ __forceinline__ void multiply_weights(float (&d)[32], const unsigned *a, unsigned b)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        ".reg .b64 right;\n"
        "mov.b64 right, {%36, %37};\n"
        "setp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, right, adds, 1, 1, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(ORDER));
}

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Warp groups issue their products in turn, so that the softmax of one runs beside the products of the other.
__device__ __forceinline__ void wait_turn(int group)
{
    asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}

__device__ __forceinline__ void pass_turn(int group)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}

struct Barriers {
    unsigned long long queries, full_keys[STAGES], full_values[STAGES];
};

// Rows of a head, whose 64 features are 128 bytes.
template <int BYTES>
__device__ __forceinline__ void load_tile(unsigned to, const CUtensorMap *map, int row, int head, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(BYTES) : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(0), "r"(row), "r"(head), "r"(barrier)
                 : "memory");
}

// A factor by rows of features: eight rows of 128 bytes to a swizzled block. The place of a tile is the lower word of
// what describes it, the upper is ORDER: so the next part of a tile is one addition.
__device__ __forceinline__ unsigned describe(unsigned tile)
{
    return 1u << 16 | (tile & 0x3ffff) >> 4;
}

// A warp's 16 queries as a left factor; each lane names the 16 bytes of a row.
__device__ __forceinline__ void load_queries(unsigned (&to)[DIM / 16][4], unsigned queries)
{
    const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[i][0]), "=r"(to[i][1]), "=r"(to[i][2]), "=r"(to[i][3])
                     : "r"(queries + row * 128 + ((2 * i + threadIdx.x / 16 % 2) ^ row % 8) * 16) : "memory");
}

__device__ __forceinline__ void score(float (&s)[KEYS / 2], const unsigned (&queries)[DIM / 16][4], unsigned keys)
{
    begin_products();
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        multiply_queries(s, queries[i], describe(keys) + i * 2, i);
    commit_products();
}

__device__ __forceinline__ void add_values(float (&o)[DIM / 2], const unsigned (&weights)[KEYS / 16][4],
                                           unsigned values)
{
    begin_products();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        multiply_weights(o, weights[i], describe(values) + i * 128);
    commit_products();
}

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned pack(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned *>(&pair);
}

// Of a thread's two rows: the score that weights are measured by, its share of the sum of weights, and what the last
// step shrank.
struct Rows {
    float base[2], sum[2], shrink[2];
};

__device__ __forceinline__ void raise_base(const float (&s)[KEYS / 2], Rows &rows, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = rows.base[half];
#pragma unroll
        for (int i = 2 * half; i < KEYS / 2; i += 4)
            top = fmaxf(top, fmaxf(s[i], s[i + 1]));
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 1));
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 2));
        rows.shrink[half] = power_of_2((rows.base[half] - top) * scale);
        rows.base[half] = top;
        rows.sum[half] *= rows.shrink[half];
    }
}

__device__ __forceinline__ void weigh(float (&s)[KEYS / 2], Rows &rows, float scale)
{
    const float base[2] = {rows.base[0] * scale, rows.base[1] * scale};
#pragma unroll
    for (int i = 0; i < KEYS / 2; i += 2) {
        s[i] = power_of_2(fmaf(s[i], scale, -base[i / 2 % 2]));
        s[i + 1] = power_of_2(fmaf(s[i + 1], scale, -base[i / 2 % 2]));
        rows.sum[i / 2 % 2] += s[i] + s[i + 1];
    }
}

__device__ __forceinline__ void pack_weights(unsigned (&weights)[KEYS / 16][4], const float (&s)[KEYS / 2])
{
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            weights[i][e] = pack(s[8 * i + 2 * e], s[8 * i + 2 * e + 1]);
}

// Keys from `n` on are hidden; only a tile with such keys is looked through.
__device__ __forceinline__ void hide(float (&s)[KEYS / 2], int key, int n)
{
    const int end = n - key - threadIdx.x % 4 * 2;
    if (key + KEYS > n)
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            if (i / 4 * 8 + i % 2 >= end)
                s[i] = LOWEST;
}

// What a block works on: tiles of keys and values are counted through, those of a second walk behind those of the
// first.
struct Work {
    const CUtensorMap *k, *v;
    const int *blocks;
    Barriers *barriers;
    unsigned queries, keys, values;
    int head, tiles, n;
};

__device__ __forceinline__ void load_keys(const Work &work, int at, int done)
{
    load_tile<TILE_BYTES>(work.keys + at % STAGES * TILE_BYTES, work.k, work.blocks[at - done] * KEYS, work.head,
                          shared_address(&work.barriers->full_keys[at % STAGES]));
}

__device__ __forceinline__ void load_values(const Work &work, int at, int done)
{
    load_tile<TILE_BYTES>(work.values + at % STAGES * TILE_BYTES, work.v, work.blocks[at - done] * KEYS, work.head,
                          shared_address(&work.barriers->full_values[at % STAGES]));
}

__device__ __forceinline__ void load_first(const Work &work, int done)
{
    for (int at = done; at < done + min(STAGES, work.tiles); at++) {
        load_keys(work, at, done);
        load_values(work, at, done);
    }
}

// 64 queries of a warp group, after `done` tiles of keys. The scores of the next tile of keys are made while the values
// of this one are added. Weights are measured by the largest score of the first tile, or, if CAREFUL, of all so far.
// Says whether weights grew too large.
template <bool CAREFUL>
__device__ __forceinline__ bool attend(const Work &work, __nv_bfloat16 *__restrict__ out, int group, int row, int done,
                                       float scale)
{
    const int lane = threadIdx.x % 32, n = work.n;
    Barriers &barriers = *work.barriers;
    float s[KEYS / 2], o[DIM / 2] = {};
    unsigned queries[DIM / 16][4], weights[KEYS / 16][4];
    Rows rows = {{LOWEST, LOWEST}, {}, {}};
    wait(shared_address(&barriers.queries), 0);
    __syncwarp();
    load_queries(queries, work.queries + group * 64 * 128);
    wait(shared_address(&barriers.full_keys[done % STAGES]), done / STAGES % 2);
    __syncwarp();
    if (group > 0)
        wait_turn(group);
    score(s, queries, work.keys + done % STAGES * TILE_BYTES);
    if (group + 1 < GROUPS || work.tiles > 1)
        pass_turn(group);
    wait_products<0>();
    hide(s, work.blocks[0] * KEYS, n);
    raise_base(s, rows, scale);
    weigh(s, rows, scale);
    pack_weights(weights, s);
    const int last = done + work.tiles - 1;
    for (int at = done; at < last; at++) {
        const int stage = at % STAGES, next = (at + 1) % STAGES;
        wait(shared_address(&barriers.full_keys[next]), (at + 1) / STAGES % 2);
        __syncwarp();
        wait_turn(group);
        score(s, queries, work.keys + next * TILE_BYTES);
        wait(shared_address(&barriers.full_values[stage]), at / STAGES % 2);
        __syncwarp();
        add_values(o, weights, work.values + stage * TILE_BYTES);
        if (group + 1 < GROUPS || at + 1 < last)
            pass_turn(group);
        // In the last group's turn all have left the keys of this tile and the values of the one before.
        if (threadIdx.x == 128 * (GROUPS - 1)) {
            if (at > done && at - 1 + STAGES <= last)
                load_values(work, at - 1 + STAGES, done);
            if (at + STAGES <= last)
                load_keys(work, at + STAGES, done);
        }
        __syncwarp();
        wait_products<1>();
        if (n % KEYS != 0)
            hide(s, work.blocks[at + 1 - done] * KEYS, n);
        if (CAREFUL)
            raise_base(s, rows, scale);
        weigh(s, rows, scale);
        // The compiler moves a wait for products up past arithmetic, but not past a loop such as that of this wait,
        // which is over at once: so the values are added while the weights are made.
        wait(shared_address(&barriers.full_values[stage]), at / STAGES % 2);
        wait_products<0>();
        if (CAREFUL)
#pragma unroll
            for (int i = 0; i < DIM / 2; i++)
                o[i] *= rows.shrink[i / 2 % 2];
        pack_weights(weights, s);
    }
    wait(shared_address(&barriers.full_values[last % STAGES]), last / STAGES % 2);
    __syncwarp();
    add_values(o, weights, work.values + last % STAGES * TILE_BYTES);
    wait_products<0>();
    const bool outgrown = !(rows.sum[0] < MOST && rows.sum[1] < MOST);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = rows.sum[half];
        sum += __shfl_xor_sync(ALL, sum, 1);
        sum += __shfl_xor_sync(ALL, sum, 2);
        const float by = __fdividef(1.0f, sum);
        if (row + 8 * half < n)
#pragma unroll
            for (int i = 0; i < DIM / 8; i++)
                *reinterpret_cast<unsigned *>(out + static_cast<size_t>(row + 8 * half) * DIM + 8 * i + lane % 4 * 2) =
                    pack(o[4 * i + 2 * half] * by, o[4 * i + 2 * half + 1] * by);
    }
    return outgrown;
}

// The list that comes at `place` when the longest comes first.
__device__ __forceinline__ int list_at(int place, int lists, const int *__restrict__ offsets)
{
    __shared__ int lengths[MOST_LISTS], found;
    if (lists > MOST_LISTS)
        return place;
    for (int i = threadIdx.x; i < lists; i += THREADS)
        lengths[i] = offsets[i + 1] - offsets[i];
    __syncthreads();
    for (int i = threadIdx.x; i < lists; i += THREADS) {
        int before = 0;
        for (int j = 0; j < lists; j++)
            before += lengths[j] > lengths[i] || (lengths[j] == lengths[i] && j < i);
        if (before == place)
            found = i;
    }
    __syncthreads();
    return found;
}

// 128 queries with an empty list get zeros. Blocks start in the order of their numbers, those of the longest lists
// first: the short ones even out what is left at the end.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
              const __grid_constant__ CUtensorMap v, const int *__restrict__ offsets,
              const int *__restrict__ blocks, __nv_bfloat16 *__restrict__ out, int n, float scale)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) Barriers barriers;
    __shared__ int again;
    const unsigned queries = (shared_address(room) + 1023) & ~1023u, keys = queries + QUERY_BYTES;
    const int group = __shfl_sync(ALL, threadIdx.x / 128, 0), warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int number = blockIdx.y * gridDim.x + blockIdx.x, set = number / (TOGETHER * gridDim.x) * TOGETHER;
    const int heads = min(TOGETHER, gridDim.y - set), inside = number - set * gridDim.x;
    const int head = set + inside % heads, list = list_at(inside / heads, gridDim.x, offsets);
    const int first = list * QUERIES, row = first + group * 64 + warp * 16 + lane / 4;
    const int begin = offsets[list], count = offsets[list + 1] - begin;
    out += static_cast<size_t>(head) * n * DIM;
    if (count == 0) {
        for (int item = threadIdx.x; item < min(QUERIES, n - first) * DIM / 8; item += THREADS)
            reinterpret_cast<uint4 *>(out + static_cast<size_t>(first) * DIM)[item] = make_uint4(0, 0, 0, 0);
        return;
    }
    const Work work = {&k, &v, blocks + begin, &barriers, queries, keys, keys + STAGES * TILE_BYTES, head, count, n};
    if (threadIdx.x == 0) {
        again = 0;
        init_barrier(shared_address(&barriers.queries), 1);
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&barriers.full_keys[s]), 1);
            init_barrier(shared_address(&barriers.full_values[s]), 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        load_tile<QUERY_BYTES>(queries, &q, first, work.head, shared_address(&barriers.queries));
        load_first(work, 0);
    }
    __syncthreads();
    if (attend<false>(work, out, group, row, 0, scale * LOG2E))
        again = 1;
    __syncthreads();
    if (again) {
        if (threadIdx.x == 0)
            load_first(work, work.tiles);
        __syncwarp();
        attend<true>(work, out, group, row, work.tiles, scale * LOG2E);
    }
}
