// wgmma from tiles that a warp group of its own copies: keys as rows for the gradients of keys and values, queries as
// rows for those of queries, so that weights and their gradients go from registers straight into the next product. The
// scores of the next tile are made, and their powers taken, while the products of the one before run. Resident blocks:
// tiles for the next rows arrive while the last are worked on.
#include <cuda.h>
#include <cuda_bf16.h>

#define DIM 64
#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define TILE 128
#define STAGES 3
#define TILE_BYTES (TILE * 128)
#define ROW_BYTES (TILE * 8)
#define ORDER 0x40000040
#define LOG2E 1.4426950408889634f
#define HIDDEN 1.0e30f

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

struct Barriers {
    unsigned long long own[2], free[2], full[STAGES], empty[STAGES];
};

// Where the tiles of a block lie: two that stay, for this work and the next, and stages of two more, with the numbers
// of their rows.
struct Room {
    unsigned own[2], stages[2], rows;
};

// The works of a block in turn: rows are ordered from most tiles to fewest, and every other round goes backwards
// through the blocks, so that all get about as much. `item` works and `done` tiles went before.
struct Works {
    int heads, blocks, item, done;

    __device__ __forceinline__ int place() const
    {
        return item * gridDim.x + (item % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    }
    __device__ __forceinline__ bool more() const
    {
        return place() < heads * blocks;
    }
    __device__ __forceinline__ int head() const
    {
        return place() % heads;
    }
    __device__ __forceinline__ int tiles() const
    {
        return blocks - place() / heads;
    }
    __device__ __forceinline__ void next()
    {
        done += tiles();
        item++;
    }
};

// 128 rows of a head, whose 64 features are 128 bytes; zeros from the last row on.
__device__ __forceinline__ void load_tile(unsigned to, const CUtensorMap *map, int row, int head, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(0), "r"(row), "r"(head), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void load_numbers(unsigned to, const float *from, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "n"(ROW_BYTES), "r"(barrier) : "memory");
}

__device__ __forceinline__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// A factor by rows of features: eight rows of 128 bytes to a swizzled block. The place of a tile is the lower word of
// what describes it, the upper is ORDER: so the next part of a tile is one addition.
__device__ __forceinline__ unsigned describe(unsigned tile)
{
    return 1u << 16 | (tile & 0x3ffff) >> 4;
}

// 64 rows of one tile times 128 of another.
__device__ __forceinline__ void dot_rows(float (&s)[64], unsigned left, unsigned right)
{
    begin_products();
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        multiply(s, describe(left) + i * 2, describe(right) + i * 2, i);
    commit_products();
}

// Adds 64 x 128 weights times 128 rows.
__device__ __forceinline__ void add_rows(float (&sum)[DIM / 2], const unsigned (&weights)[TILE / 16][4], unsigned rows)
{
#pragma unroll
    for (int i = 0; i < TILE / 16; i++)
        multiply_weights(sum, weights[i], describe(rows) + i * 128);
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

__device__ __forceinline__ float2 load_pair(unsigned from)
{
    float2 pair;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(from) : "memory");
    return pair;
}

__device__ __forceinline__ void init_barriers(Barriers &barriers)
{
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++) {
            init_barrier(shared_address(&barriers.own[s]), 1);
            init_barrier(shared_address(&barriers.free[s]), 4 * CONSUMERS);
        }
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&barriers.full[s]), 1);
            init_barrier(shared_address(&barriers.empty[s]), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}

__device__ __forceinline__ Room place_tiles(unsigned char *room)
{
    const unsigned first = (shared_address(room) + 1023) & ~1023u;
    return {{first, first + 2 * TILE_BYTES},
            {first + 4 * TILE_BYTES, first + (4 + STAGES) * TILE_BYTES},
            first + (4 + 2 * STAGES) * TILE_BYTES};
}

// The two tiles that stay, then pairs of those from `begin` on, `step` further each; with numbers, if there are any.
__device__ __forceinline__ void load_all(const CUtensorMap *own0, const CUtensorMap *own1, const CUtensorMap *map0,
                                         const CUtensorMap *map1, const float *numbers, Barriers &barriers, Room room,
                                         int first, int begin, int step, const Works &works)
{
    const int which = works.item % 2, head = works.head(), end = works.done + works.tiles();
    const unsigned own = shared_address(&barriers.own[which]);
    wait(shared_address(&barriers.free[which]), (works.item / 2 + 1) % 2);
    expect(own, 2 * TILE_BYTES);
    load_tile(room.own[0] + which * TILE_BYTES, own0, first * TILE, head, own);
    load_tile(room.own[1] + which * TILE_BYTES, own1, first * TILE, head, own);
    for (int at = works.done; at < end; at++) {
        const int stage = at % STAGES, tile = begin + (at - works.done) * step;
        const unsigned full = shared_address(&barriers.full[stage]);
        wait(shared_address(&barriers.empty[stage]), (at / STAGES + 1) % 2);
        expect(full, 2 * TILE_BYTES + (numbers != nullptr ? ROW_BYTES : 0));
        load_tile(room.stages[0] + stage * TILE_BYTES, map0, tile * TILE, head, full);
        if (numbers != nullptr)
            load_numbers(room.rows + stage * ROW_BYTES, numbers + static_cast<size_t>(tile) * 2 * TILE, full);
        load_tile(room.stages[1] + stage * TILE_BYTES, map1, tile * TILE, head, full);
    }
}

__device__ __forceinline__ void store_rows(__nv_bfloat16 *__restrict__ to, const float (&sum)[DIM / 2], int row, int n,
                                           float factor)
{
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (row + 8 * half < n)
#pragma unroll
            for (int i = 0; i < DIM / 8; i++)
                *reinterpret_cast<unsigned *>(to + static_cast<size_t>(row + 8 * half) * DIM + 8 * i +
                                              threadIdx.x % 4 * 2) =
                    pack(sum[4 * i + 2 * half] * factor, sum[4 * i + 2 * half + 1] * factor);
}

// Of the tile on the diagonal, a key behind a query is hidden from it; rows are `row` and the eighth after it.
template <bool ROWS_ARE_KEYS> __device__ __forceinline__ void hide(float (&s)[64], int row)
{
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const int across = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, down = row + i / 2 % 2 * 8;
        if (ROWS_ARE_KEYS ? down > across : across > down)
            s[i] = -HIDDEN;
    }
}

// For each query the logarithm of its sum to base 2 and the product of its result with that result's gradient, 128 of
// each in turn. Behind the last query the logarithm hides what is there.
extern "C" __global__ void __launch_bounds__(128)
    row_products(const uint4 *__restrict__ out, const uint4 *__restrict__ dout, const float *__restrict__ lse,
                 float *__restrict__ rows_of, int heads, int n)
{
    const int at = blockIdx.x * 128 + threadIdx.x, row = at / 8, padded = (n + TILE - 1) / TILE * TILE;
    const int head = row / padded, i = row % padded;
    const bool inside = head < heads && i < n;
    const size_t query = static_cast<size_t>(head) * n + i;
    float sum = 0.0f;
    if (inside) {
        const uint4 x = out[query * 8 + at % 8], y = dout[query * 8 + at % 8];
        const __nv_bfloat162 *p = reinterpret_cast<const __nv_bfloat162 *>(&x);
        const __nv_bfloat162 *q = reinterpret_cast<const __nv_bfloat162 *>(&y);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 a = __bfloat1622float2(p[j]), b = __bfloat1622float2(q[j]);
            sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
        }
    }
#pragma unroll
    for (int offset = 4; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (head < heads && at % 8 == 0) {
        float *to = rows_of + static_cast<size_t>(row / TILE) * 2 * TILE + row % TILE;
        to[0] = inside ? lse[query] * LOG2E : HIDDEN;
        to[TILE] = sum;
    }
}

// Of 64 keys by 128 queries of a warp group: scores, then weights, and their gradients; both again as left factors.
struct Weights {
    float s[64], ds[64];
    unsigned weights[TILE / 16][4], gradients[TILE / 16][4];
};

__device__ __forceinline__ void take_powers(float (&s)[64], unsigned numbers, float scale)
{
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const float2 log = load_pair(numbers + i * 8 + threadIdx.x % 4 * 8);
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
            s[i + half] = power_of_2(fmaf(s[i + half], scale, -log.x));
            s[i + half + 1] = power_of_2(fmaf(s[i + half + 1], scale, -log.y));
        }
    }
}

__device__ __forceinline__ void pack_weights(Weights &w, unsigned numbers)
{
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const float2 own = load_pair(numbers + TILE * 4 + i * 8 + threadIdx.x % 4 * 8);
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
            const float low = w.s[i + half], high = w.s[i + half + 1];
            w.weights[i / 8][i % 8 / 2 + half / 2] = pack(low, high);
            w.gradients[i / 8][i % 8 / 2 + half / 2] =
                pack(low * (w.ds[i + half] - own.x), high * (w.ds[i + half + 1] - own.y));
        }
    }
}

// 128 keys a block: the gradients of keys and values, over the tiles of queries from the first that sees them.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    key_gradients(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                  const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout,
                  const float *__restrict__ rows_of, __nv_bfloat16 *__restrict__ dk, __nv_bfloat16 *__restrict__ dv,
                  int heads, int n, float scale)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ __align__(8) Barriers barriers;
    const Room room = place_tiles(shared);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), blocks = (n + TILE - 1) / TILE;
    Works works = {heads, blocks, 0, 0};
    init_barriers(barriers);
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (; works.more(); works.next()) {
                const int first = blocks - works.tiles();
                load_all(&k, &v, &q, &dout, rows_of + static_cast<size_t>(works.head()) * blocks * 2 * TILE, barriers,
                         room,
                         first, first, 1, works);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int lane = threadIdx.x % 32, mine = (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        const float power = scale * LOG2E;
        for (; works.more(); works.next()) {
            const int which = works.item % 2, done = works.done, last = done + works.tiles() - 1;
            const unsigned own = which * TILE_BYTES + (group - 1) * 64 * 128;
            const unsigned keys = room.own[0] + own, values = room.own[1] + own;
            float key_sum[DIM / 2] = {}, value_sum[DIM / 2] = {};
            Weights w;
            wait(shared_address(&barriers.own[which]), works.item / 2 % 2);
            wait(shared_address(&barriers.full[done % STAGES]), done / STAGES % 2);
            __syncwarp();
            dot_rows(w.s, keys, room.stages[0] + done % STAGES * TILE_BYTES);
            dot_rows(w.ds, values, room.stages[1] + done % STAGES * TILE_BYTES);
            wait_products<0>();
            hide<true>(w.s, mine);
            take_powers(w.s, room.rows + done % STAGES * ROW_BYTES, power);
            pack_weights(w, room.rows + done % STAGES * ROW_BYTES);
            for (int at = done; at < last; at++) {
                const int stage = at % STAGES, next = (at + 1) % STAGES;
                wait(shared_address(&barriers.full[next]), (at + 1) / STAGES % 2);
                __syncwarp();
                dot_rows(w.s, keys, room.stages[0] + next * TILE_BYTES);
                begin_products();
                add_rows(value_sum, w.weights, room.stages[1] + stage * TILE_BYTES);
                add_rows(key_sum, w.gradients, room.stages[0] + stage * TILE_BYTES);
                commit_products();
                wait_products<1>();
                take_powers(w.s, room.rows + next * ROW_BYTES, power);
                // The compiler moves a wait for products up past arithmetic, but not past a loop such as that of this
                // wait, which is over at once: so powers are taken while the products run.
                wait(shared_address(&barriers.full[next]), (at + 1) / STAGES % 2);
                wait_products<0>();
                if (lane == 0)
                    arrive(shared_address(&barriers.empty[stage]));
                __syncwarp();
                dot_rows(w.ds, values, room.stages[1] + next * TILE_BYTES);
                wait_products<0>();
                pack_weights(w, room.rows + next * ROW_BYTES);
            }
            begin_products();
            add_rows(value_sum, w.weights, room.stages[1] + last % STAGES * TILE_BYTES);
            add_rows(key_sum, w.gradients, room.stages[0] + last % STAGES * TILE_BYTES);
            commit_products();
            wait_products<0>();
            if (lane == 0) {
                arrive(shared_address(&barriers.empty[last % STAGES]));
                arrive(shared_address(&barriers.free[which]));
            }
            __syncwarp();
            const size_t begin = static_cast<size_t>(works.head()) * n * DIM;
            const int row = (blocks - works.tiles()) * TILE + mine;
            store_rows(dk + begin, key_sum, row, n, scale);
            store_rows(dv + begin, value_sum, row, n, 1.0f);
        }
    }
}

// Of a thread's two queries: the logarithm of the sum and the product with the gradient.
struct Numbers {
    float log[2], own[2];
};

__device__ __forceinline__ void weigh_gradients(float (&s)[64], const float (&ds)[64], const Numbers &row)
{
#pragma unroll
    for (int i = 0; i < 64; i++)
        s[i] *= ds[i] - row.own[i / 2 % 2];
}

__device__ __forceinline__ void pack_gradients(unsigned (&gradients)[TILE / 16][4], const float (&s)[64])
{
#pragma unroll
    for (int i = 0; i < 64; i += 2)
        gradients[i / 8][i % 8 / 2] = pack(s[i], s[i + 1]);
}

__device__ __forceinline__ void take_powers(float (&s)[64], const Numbers &row, float scale)
{
#pragma unroll
    for (int i = 0; i < 64; i++)
        s[i] = power_of_2(fmaf(s[i], scale, -row.log[i / 2 % 2]));
}

// 128 queries a block: their gradients, over the tiles of keys from the last that they see to the first.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    query_gradients(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                    const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout,
                    const float *__restrict__ rows_of, __nv_bfloat16 *__restrict__ dq, int heads, int n, float scale)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ __align__(8) Barriers barriers;
    const Room room = place_tiles(shared);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), blocks = (n + TILE - 1) / TILE;
    Works works = {heads, blocks, 0, 0};
    init_barriers(barriers);
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (; works.more(); works.next()) {
                const int first = works.tiles() - 1;
                load_all(&q, &dout, &k, &v, nullptr, barriers, room, first, first, -1, works);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int lane = threadIdx.x % 32, mine = (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        const float power = scale * LOG2E;
        for (; works.more(); works.next()) {
            const int which = works.item % 2, done = works.done, first = works.tiles() - 1, last = done + first;
            const unsigned own = which * TILE_BYTES + (group - 1) * 64 * 128;
            const unsigned queries = room.own[0] + own, douts = room.own[1] + own;
            const float *numbers = rows_of + (static_cast<size_t>(works.head()) * blocks + first) * 2 * TILE + mine;
            const Numbers row = {{numbers[0], numbers[8]}, {numbers[TILE], numbers[TILE + 8]}};
            float sum[DIM / 2] = {}, s[64], ds[64];
            unsigned gradients[TILE / 16][4];
            wait(shared_address(&barriers.own[which]), works.item / 2 % 2);
            wait(shared_address(&barriers.full[done % STAGES]), done / STAGES % 2);
            __syncwarp();
            dot_rows(s, queries, room.stages[0] + done % STAGES * TILE_BYTES);
            dot_rows(ds, douts, room.stages[1] + done % STAGES * TILE_BYTES);
            wait_products<0>();
            hide<false>(s, mine);
            take_powers(s, row, power);
            weigh_gradients(s, ds, row);
            pack_gradients(gradients, s);
            for (int at = done; at < last; at++) {
                const int stage = at % STAGES, next = (at + 1) % STAGES;
                wait(shared_address(&barriers.full[next]), (at + 1) / STAGES % 2);
                __syncwarp();
                dot_rows(s, queries, room.stages[0] + next * TILE_BYTES);
                dot_rows(ds, douts, room.stages[1] + next * TILE_BYTES);
                begin_products();
                add_rows(sum, gradients, room.stages[0] + stage * TILE_BYTES);
                commit_products();
                wait_products<2>();
                take_powers(s, row, power);
                // Borders for the compiler, as above.
                wait(shared_address(&barriers.full[next]), (at + 1) / STAGES % 2);
                wait_products<1>();
                weigh_gradients(s, ds, row);
                wait(shared_address(&barriers.full[next]), (at + 1) / STAGES % 2);
                wait_products<0>();
                if (lane == 0)
                    arrive(shared_address(&barriers.empty[stage]));
                __syncwarp();
                pack_gradients(gradients, s);
            }
            begin_products();
            add_rows(sum, gradients, room.stages[0] + last % STAGES * TILE_BYTES);
            commit_products();
            wait_products<0>();
            if (lane == 0) {
                arrive(shared_address(&barriers.empty[last % STAGES]));
                arrive(shared_address(&barriers.free[which]));
            }
            __syncwarp();
            store_rows(dq + static_cast<size_t>(works.head()) * n * DIM, sum, first * TILE + mine, n, scale);
        }
    }
}
