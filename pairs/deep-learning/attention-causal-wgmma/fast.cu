// Weights are measured by the largest score of the first tile, which takes no maxima and no rescaling in all others; a
// block whose weights grow too large begins again with running maxima. Warp groups issue their products in turn.
#include <cuda.h>
#include <cuda_bf16.h>

#define DIM 128
#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define QUERIES (64 * CONSUMERS)
#define KEYS 128
#define STAGES 3
// Heads whose blocks run at the same time: their keys and values stay in the L2 cache.
#define TOGETHER 8
#define BOX_BYTES (128 * 128)
#define TILE_BYTES (2 * BOX_BYTES)
#define ORDER 0x40000040
#define LOG2E 1.4426950408889634f
#define LOWEST -1.0e30f
// Beyond this sum of weights a block begins again.
#define MOST 1.0e30f
#define ALL 0xffffffffu

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
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

__device__ __forceinline__ void multiply(float (&d)[64], unsigned a, unsigned b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        ".reg .b64 left, right;\n"
        "mov.b64 left, {%64, %67};\n"
        "mov.b64 right, {%65, %67};\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "left, right, adds, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a), "r"(b), "r"(adds), "r"(ORDER));
}

__device__ __forceinline__ void multiply_weights(float (&d)[64], const unsigned *a, unsigned b)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        ".reg .b64 right;\n"
        "mov.b64 right, {%68, %69};\n"
        "setp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, right, adds, 1, 1, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
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

// Warp groups issue their products in turn, so that the softmax of one runs beside the products of the others.
__device__ __forceinline__ void wait_turn(int group)
{
    asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}

__device__ __forceinline__ void pass_turn(int group)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(1 + (group + 1) % CONSUMERS) : "memory");
}

struct Barriers {
    unsigned long long queries, full_keys[STAGES], empty_keys[STAGES], full_values[STAGES], empty_values[STAGES], first;
};

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int feature, int row, int head,
                                         unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(feature), "r"(row), "r"(head), "r"(barrier)
                 : "memory");
}

// 128 rows in two boxes of 64 features, which are 128 bytes.
__device__ __forceinline__ void load_tile(unsigned to, const CUtensorMap *map, int row, int head, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(TILE_BYTES) : "memory");
    load_box(to, map, 0, row, head, barrier);
    load_box(to + BOX_BYTES, map, 64, row, head, barrier);
}

// A factor by rows of features: eight rows of 128 bytes to a swizzled block. The place of a tile is the lower word of
// what describes it, the upper is ORDER: so the next part of a tile is one addition.
__device__ __forceinline__ unsigned describe(unsigned tile)
{
    return 1u << 16 | (tile & 0x3ffff) >> 4;
}

// A right factor by columns of features: eight keys to a swizzled block, the next 64 features a box further on.
__device__ __forceinline__ unsigned describe_values(unsigned tile)
{
    return BOX_BYTES / 16 << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void score(float (&s)[64], unsigned queries, unsigned keys)
{
    begin_products();
#pragma unroll
    for (int i = 0; i < DIM / 16; i++) {
        const unsigned at = i / 4 * (BOX_BYTES / 16) + i % 4 * 2;
        multiply(s, describe(queries) + at, describe(keys) + at, i);
    }
    commit_products();
}

__device__ __forceinline__ void add_values(float (&o)[64], const unsigned (&weights)[KEYS / 16][4], unsigned values)
{
    begin_products();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        multiply_weights(o, weights[i], describe_values(values) + i * 128);
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

__device__ __forceinline__ void raise_base(const float (&s)[64], Rows &rows, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = rows.base[half];
#pragma unroll
        for (int i = 2 * half; i < 64; i += 4)
            top = fmaxf(top, fmaxf(s[i], s[i + 1]));
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 1));
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 2));
        rows.shrink[half] = power_of_2((rows.base[half] - top) * scale);
        rows.base[half] = top;
        rows.sum[half] *= rows.shrink[half];
    }
}

__device__ __forceinline__ void weigh(float (&s)[64], Rows &rows, float scale)
{
    const float base[2] = {rows.base[0] * scale, rows.base[1] * scale};
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
        s[i] = power_of_2(fmaf(s[i], scale, -base[i / 2 % 2]));
        s[i + 1] = power_of_2(fmaf(s[i + 1], scale, -base[i / 2 % 2]));
        rows.sum[i / 2 % 2] += s[i] + s[i + 1];
    }
}

__device__ __forceinline__ void pack_weights(unsigned (&weights)[KEYS / 16][4], const float (&s)[64])
{
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            weights[i][e] = pack(s[8 * i + 2 * e], s[8 * i + 2 * e + 1]);
}

__device__ __forceinline__ void load_all(const CUtensorMap *q, const CUtensorMap *k, const CUtensorMap *v,
                                         Barriers &barriers,
                                         unsigned queries, unsigned keys, unsigned values, int row, int head,
                                             int tiles, int done)
{
    if (done == 0)
        load_tile(queries, q, row, head, shared_address(&barriers.queries));
    for (int at = done; at < done + tiles; at++) {
        const int stage = at % STAGES, key = (done + tiles - 1 - at) * KEYS;
        wait(shared_address(&barriers.empty_keys[stage]), (at / STAGES + 1) % 2);
        load_tile(keys + stage * TILE_BYTES, k, key, head, shared_address(&barriers.full_keys[stage]));
        wait(shared_address(&barriers.empty_values[stage]), (at / STAGES + 1) % 2);
        load_tile(values + stage * TILE_BYTES, v, key, head, shared_address(&barriers.full_values[stage]));
    }
}

// 64 queries of a warp group. Tiles of keys come from the last, the only one that is masked, to the first; the
// scores of the next are made while the values of this one are added.
template <bool CAREFUL>
__device__ __forceinline__ bool attend(Barriers &barriers, unsigned queries, unsigned keys, unsigned values,
                                       __nv_bfloat16 *__restrict__ out, int group, int row, int tiles, int done, int n,
                                           float scale)
{
    const int lane = threadIdx.x % 32;
    float s[64], o[64];
    unsigned weights[KEYS / 16][4];
    Rows rows = {{LOWEST, LOWEST}, {}, {}};
    wait(shared_address(&barriers.queries), 0);
    wait(shared_address(&barriers.full_keys[done % STAGES]), done / STAGES % 2);
    __syncwarp();
    if (group > 0)
        wait_turn(group);
    score(s, queries, keys + done % STAGES * TILE_BYTES);
    if (group + 1 < CONSUMERS || tiles > 1)
        pass_turn(group);
    wait_products<0>();
    if (lane == 0)
        arrive(shared_address(&barriers.empty_keys[done % STAGES]));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 64; i++) {
        if ((tiles - 1) * KEYS + i / 4 * 8 + lane % 4 * 2 + i % 2 > row + i / 2 % 2 * 8)
            s[i] = LOWEST;
        o[i] = 0.0f;
    }
    raise_base(s, rows, scale);
    weigh(s, rows, scale);
    pack_weights(weights, s);
    const int last = done + tiles - 1;
    for (int at = done; at < last; at++) {
        const int stage = at % STAGES, next = (at + 1) % STAGES;
        wait(shared_address(&barriers.full_keys[next]), (at + 1) / STAGES % 2);
        __syncwarp();
        wait_turn(group);
        score(s, queries, keys + next * TILE_BYTES);
        wait(shared_address(&barriers.full_values[stage]), at / STAGES % 2);
        __syncwarp();
        add_values(o, weights, values + stage * TILE_BYTES);
        if (group + 1 < CONSUMERS || at + 1 < last)
            pass_turn(group);
        wait_products<1>();
        if (lane == 0)
            arrive(shared_address(&barriers.empty_keys[next]));
        __syncwarp();
        if (CAREFUL)
            raise_base(s, rows, scale);
        weigh(s, rows, scale);
        // The compiler moves a wait for products up past arithmetic, but not past a loop such as that of this wait,
        // which is over at once: so the values are added while the weights are made.
        wait(shared_address(&barriers.full_values[stage]), at / STAGES % 2);
        wait_products<0>();
        if (lane == 0)
            arrive(shared_address(&barriers.empty_values[stage]));
        __syncwarp();
        if (CAREFUL)
#pragma unroll
            for (int i = 0; i < 64; i++)
                o[i] *= rows.shrink[i / 2 % 2];
        pack_weights(weights, s);
    }
    wait(shared_address(&barriers.full_values[last % STAGES]), last / STAGES % 2);
    __syncwarp();
    add_values(o, weights, values + last % STAGES * TILE_BYTES);
    wait_products<0>();
    if (lane == 0)
        arrive(shared_address(&barriers.empty_values[last % STAGES]));
    __syncwarp();
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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
              const __grid_constant__ CUtensorMap v, __nv_bfloat16 *__restrict__ out, int n, float scale)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) Barriers barriers;
    __shared__ int again;
    const unsigned queries = (shared_address(room) + 1023) & ~1023u;
    const unsigned keys = queries + TILE_BYTES, values = keys + STAGES * TILE_BYTES;
    const int group = __shfl_sync(ALL, threadIdx.x / 128, 0), heads = gridDim.x,
        order = blockIdx.y * heads + blockIdx.x;
    const int before = order / (TOGETHER * gridDim.y) * TOGETHER, width = min(TOGETHER, heads - before);
    const int place = order - before * gridDim.y, head = before + place % width;
    const int first = (gridDim.y - 1 - place / width) * QUERIES, tiles = first / KEYS + 1;
    if (threadIdx.x == 0) {
        again = 0;
        init_barrier(shared_address(&barriers.queries), 1);
        init_barrier(shared_address(&barriers.first), 128 * CONSUMERS);
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&barriers.full_keys[s]), 1);
            init_barrier(shared_address(&barriers.full_values[s]), 1);
            init_barrier(shared_address(&barriers.empty_keys[s]), 4 * CONSUMERS);
            init_barrier(shared_address(&barriers.empty_values[s]), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 32) {
            if (threadIdx.x == 0)
                load_all(&q, &k, &v, barriers, queries, keys, values, first, head, tiles, 0);
            __syncwarp();
            wait(shared_address(&barriers.first), 0);
            if (threadIdx.x == 0 && again)
                load_all(&q, &k, &v, barriers, queries, keys, values, first, head, tiles, tiles);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int own = (group - 1) * 64, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        out += static_cast<size_t>(head) * n * DIM;
        const int row = first + own + warp * 16 + lane / 4;
        if (attend<false>(barriers, queries + own * 128, keys, values, out, group - 1, row, tiles, 0, n, scale * LOG2E))
            again = 1;
        // All threads are over the first time before one looks whether there is a second.
        arrive(shared_address(&barriers.first));
        wait(shared_address(&barriers.first), 0);
        if (again)
            attend<true>(barriers, queries + own * 128, keys, values, out, group - 1, row, tiles, tiles, n,
                         scale * LOG2E);
    }
}
