#include <cooperative_groups.h>

#define BLOCKS 8
#define THREADS 128
#define WARPS (THREADS / 32)
#define ROWS 8
#define COLS 8
#define WIDTH (32 * COLS)
#define MOST (BLOCKS * WARPS * ROWS)
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

// Rows from other warps, two sets that take turns: a row is two quads a lane. The barrier counts what comes.
struct Edges {
    float4 above[2][2][32], below[2][2][32];
    unsigned long long ready[2];
};
#define SET_BYTES (WIDTH * 4)
#define BELOW (2 * SET_BYTES)
#define READY (4 * SET_BYTES)

// The address, in the shared memory of block `rank` of the cluster, of what lies at `place` in one's own.
__device__ __forceinline__ unsigned shared_of(const void *place, int rank)
{
    unsigned address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(address)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(place))), "r"(rank));
    return address;
}

__device__ __forceinline__ void send(unsigned to, float x, float y, float z, float w, unsigned barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "f"(x),
        "f"(y), "f"(z), "f"(w), "r"(barrier)
        : "memory");
}

// A row to another warp, perhaps of another block, whose barrier counts the bytes.
__device__ __forceinline__ void put(unsigned to, const float (&row)[COLS], unsigned barrier)
{
    send(to, row[0], row[1], row[2], row[3], barrier);
    send(to + 512, row[4], row[5], row[6], row[7], barrier);
}

__device__ __forceinline__ void expect(unsigned barrier, int bytes)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void wait_for(unsigned barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

// row += by * other: what a neighbour in another warp adds.
template <bool WHOLE>
__device__ __forceinline__ void add(float (&row)[COLS], const float (&by)[COLS], float rate, const float4 (*other)[32])
{
    const float4 a = other[0][threadIdx.x % 32], b = other[1][threadIdx.x % 32];
    const float value[COLS] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int j = 0; j < COLS; j++)
        row[j] = fmaf(WHOLE && j > 0 && j + 1 < COLS ? rate : by[j], value[j], row[j]);
}

// The steps of a warp's rows. Warps with rows on the rim of the plate, or past it, keep those as they are. WHOLE: there
// are none, and only a lane's first and last column can be on the rim.
template <bool WHOLE>
__device__ __forceinline__ void advance(float (&u)[ROWS][COLS], const float (&by)[COLS], float rate, unsigned inner,
                                        bool has_above, bool has_below, unsigned upper, unsigned lower,
                                        Edges &edges, int count)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int t = 0; t < count; t++) {
        if (has_above)
            put(upper + BELOW + t % 2 * SET_BYTES + lane * 16, u[0], upper + READY + t % 2 * 8);
        if (has_below)
            put(lower + t % 2 * SET_BYTES + lane * 16, u[ROWS - 1], lower + READY + t % 2 * 8);
        float above[COLS] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float left = __shfl_up_sync(ALL, u[r][COLS - 1], 1), right = __shfl_down_sync(ALL, u[r][0], 1);
            const bool free = WHOLE || (inner >> r & 1);
            float before = left;
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                const float here = u[r][j];
                float sum = before + (j + 1 < COLS ? u[r][(j + 1) % COLS] : right);
                if (r > 0)
                    sum += above[j];
                if (r + 1 < ROWS)
                    sum += u[(r + 1) % ROWS][j];
                const float changed = fmaf(WHOLE && j > 0 && j + 1 < COLS ? rate : by[j],
                                           fmaf(-4.0f, here, sum), here);
                u[r][j] = free ? changed : here;
                before = here;
                above[j] = here;
            }
        }
        const unsigned ready = static_cast<unsigned>(__cvta_generic_to_shared(&edges.ready[t % 2]));
        wait_for(ready, t / 2 % 2);
        if (lane == 0)
            expect(ready, (has_above + has_below) * SET_BYTES);
        if (WHOLE || (inner & 1))
            add<WHOLE>(u[0], by, rate, edges.above[t % 2]);
        if (WHOLE || (inner >> (ROWS - 1) & 1))
            add<WHOLE>(u[ROWS - 1], by, rate, edges.below[t % 2]);
    }
}

// A plate of up to 256 rows and columns in the registers of a cluster: eight rows a warp, eight columns a lane.
// Columns come by shuffle; only a warp's first and last row go through (distributed) shared memory, as asynchronous
// stores: a warp waits for its two neighbours and for nobody else.
__device__ __forceinline__ void hold(float *__restrict__ plate, float rate, int height, int width, int count, int rank)
{
    __shared__ Edges all[WARPS];
    cg::cluster_group cluster = cg::this_cluster();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, x = lane * COLS;
    const int first = (rank * WARPS + warp) * ROWS;
    const bool quads = width % 4 == 0, has_above = first > 0, has_below = first + ROWS < MOST;
    float u[ROWS][COLS], by[COLS];
    unsigned inner = 0;
#pragma unroll
    for (int j = 0; j < COLS; j++)
        by[j] = x + j > 0 && x + j < width - 1 ? rate : 0.0f;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int y = first + r;
        const float *from = plate + static_cast<size_t>(y) * width + x;
        inner |= y > 0 && y < height - 1 ? 1u << r : 0u;
#pragma unroll
        for (int q = 0; q < COLS / 4; q++) {
            float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (quads && y < height && x + 4 * q < width)
                four = *reinterpret_cast<const float4 *>(from + 4 * q);
            u[r][4 * q] = four.x, u[r][4 * q + 1] = four.y, u[r][4 * q + 2] = four.z, u[r][4 * q + 3] = four.w;
        }
        if (!quads && y < height)
#pragma unroll
            for (int j = 0; j < COLS; j++)
                u[r][j] = x + j < width ? from[j] : 0.0f;
    }
    Edges &edges = all[warp];
    if (lane == 0) {
        const unsigned ready = static_cast<unsigned>(__cvta_generic_to_shared(edges.ready));
        for (int i = 0; i < 2; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(ready + 8 * i) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int i = 0; i < 2; i++)
            expect(ready + 8 * i, (has_above + has_below) * SET_BYTES);
    }
    __syncwarp();
    // Nobody writes to a block that has not started.
    cluster.sync();
    const unsigned upper = shared_of(&all[(warp + WARPS - 1) % WARPS], warp > 0 || !has_above ? rank : rank - 1);
    const unsigned lower = shared_of(&all[(warp + 1) % WARPS], warp + 1 < WARPS || !has_below ? rank : rank + 1);
    if (inner == (1u << ROWS) - 1 && width % COLS == 0)
        advance<true>(u, by, rate, inner, has_above, has_below, upper, lower, edges, count);
    else
        advance<false>(u, by, rate, inner, has_above, has_below, upper, lower, edges, count);
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int y = first + r;
        float *to = plate + static_cast<size_t>(y) * width + x;
        if (y >= height)
            continue;
        if (quads) {
#pragma unroll
            for (int q = 0; q < COLS / 4; q++)
                if (x + 4 * q < width)
                    reinterpret_cast<float4 *>(to)[q] =
                        make_float4(u[r][4 * q], u[r][4 * q + 1], u[r][4 * q + 2], u[r][4 * q + 3]);
        } else {
#pragma unroll
            for (int j = 0; j < COLS; j++)
                if (x + j < width)
                    to[j] = u[r][j];
        }
    }
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// Larger plates: a strip of rows a block, in shared memory; border rows are read from the neighbours.
__device__ __forceinline__ void stage(float *__restrict__ plate, float rate, int height, int width, int count, int rank,
                                      float *strips)
{
    cg::cluster_group cluster = cg::this_cluster();
    const int rows = (height + BLOCKS - 1) / BLOCKS, first = rank * rows, own = max(0, min(rows, height - first));
    float *from = plate + static_cast<size_t>(first) * width;
    float *now = strips, *next = strips + rows * width;
    for (int i = threadIdx.x; i < own * width; i += THREADS)
        now[i] = from[i];
    cluster.sync();
    for (int t = 0; t < count; t++) {
        for (int x = threadIdx.x; x < width && own > 0; x += THREADS) {
            float above = first > 0 ? cluster.map_shared_rank(now, rank - 1)[(rows - 1) * width + x] : 0.0f;
            float centre = now[x];
            for (int y = 0; y < own; y++) {
                float below = 0.0f;
                if (y + 1 < own)
                    below = now[(y + 1) * width + x];
                else if (first + own < height)
                    below = cluster.map_shared_rank(now, rank + 1)[x];
                float value = centre;
                if (x > 0 && x < width - 1 && first + y > 0 && first + y < height - 1)
                    value += rate * (now[y * width + x - 1] + now[y * width + x + 1] + above + below - 4.0f * centre);
                next[y * width + x] = value;
                above = centre;
                centre = below;
            }
        }
        float *other = now;
        now = next;
        next = other;
        cluster.sync();
    }
    for (int i = threadIdx.x; i < own * width; i += THREADS)
        from[i] = now[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    steps(float *__restrict__ plates, float rate, int height, int width, int count)
{
    extern __shared__ float strips[];
    const int rank = cg::this_cluster().block_rank();
    float *plate = plates + static_cast<size_t>(blockIdx.x / BLOCKS) * height * width;
    if (height <= MOST && width <= WIDTH)
        hold(plate, rate, height, width, count, rank);
    else
        stage(plate, rate, height, width, count, rank, strips);
}
