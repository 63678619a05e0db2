#include <cooperative_groups.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define ROWS 8
#define COLS 8
#define WIDTH (32 * COLS)
#define MOST (2 * WARPS * ROWS)
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

// The first and last row of each warp, two sets that take turns: a row is two quads a lane. The places before and after
// the block's own are for the other block's outer row, whose bytes a barrier counts.
struct Edges {
    float4 first[2][WARPS + 1][2][32], last[2][WARPS + 1][2][32];
    unsigned long long ready[2];
};
#define ROW_BYTES (WIDTH * 4)
#define SET_BYTES ((WARPS + 1) * ROW_BYTES)

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// The same address in the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned shared_of(unsigned address, int rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ __forceinline__ void send(unsigned to, float x, float y, float z, float w, unsigned barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "f"(x),
        "f"(y), "f"(z), "f"(w), "r"(barrier)
        : "memory");
}

// A row to the other block, whose barrier counts its bytes.
__device__ __forceinline__ void send(unsigned to, const float (&row)[COLS], unsigned barrier)
{
    send(to, row[0], row[1], row[2], row[3], barrier);
    send(to + 512, row[4], row[5], row[6], row[7], barrier);
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

__device__ __forceinline__ void put(float4 (&to)[2][32], const float (&row)[COLS])
{
    const int lane = threadIdx.x % 32;
    to[0][lane] = make_float4(row[0], row[1], row[2], row[3]);
    to[1][lane] = make_float4(row[4], row[5], row[6], row[7]);
}

// row += by * other: what a neighbour in another warp adds.
template <bool WHOLE>
__device__ __forceinline__ void add(float (&row)[COLS], const float (&by)[COLS], float rate,
                                    const float4 (&other)[2][32])
{
    const float4 a = other[0][threadIdx.x % 32], b = other[1][threadIdx.x % 32];
    const float value[COLS] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int j = 0; j < COLS; j++)
        row[j] = fmaf(WHOLE && j > 0 && j + 1 < COLS ? rate : by[j], value[j], row[j]);
}

// The steps of a warp's rows, of which `inner` names those that are not on the rim of the plate or past it. WHOLE: only
// the outer rows, and a lane's outer columns, can be on the rim.
template <bool WHOLE>
__device__ __forceinline__ void advance(float (&u)[ROWS][COLS], const float (&by)[COLS], float rate, unsigned inner,
                                        int rank, Edges &edges, int count)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // The warp that meets the other block: the place there for its row.
    const bool meets = warp == (rank == 0 ? WARPS - 1 : 0);
    const unsigned there = shared_of(
        shared_address(rank == 0 ? &edges.last[0][0][0][lane] : &edges.first[0][WARPS][0][lane]), rank ^ 1);
    const unsigned theirs = shared_of(shared_address(edges.ready), rank ^ 1);
    const bool upper = inner & 1, lower = inner >> (ROWS - 1) & 1;
#pragma unroll 1
    for (int t = 0; t < count; t++) {
        const int set = t % 2;
        const unsigned ready = shared_address(&edges.ready[set]);
        put(edges.first[set][warp], u[0]);
        put(edges.last[set][warp + 1], u[ROWS - 1]);
        if (meets) {
            const unsigned to = there + set * SET_BYTES, barrier = theirs + 8 * set;
            if (rank == 0)
                send(to, u[ROWS - 1], barrier);
            else
                send(to, u[0], barrier);
        }
        if (meets && lane == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ready), "n"(ROW_BYTES)
                         : "memory");
        float above[COLS] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float left = __shfl_up_sync(ALL, u[r][COLS - 1], 1), right = __shfl_down_sync(ALL, u[r][0], 1);
            const bool free = (WHOLE && r > 0 && r + 1 < ROWS) || (inner >> r & 1);
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
        __syncthreads();
        if (meets)
            wait_for(ready, t / 2 % 2);
        if (upper)
            add<WHOLE>(u[0], by, rate, edges.last[set][warp]);
        if (lower)
            add<WHOLE>(u[ROWS - 1], by, rate, edges.first[set][warp + 1]);
    }
}

// A plate of up to 256 rows and columns in the registers of two multiprocessors: eight rows a warp, eight columns a
// lane. Columns come by shuffle, a warp's outer rows through shared memory; only the row in the middle of the plate
// crosses to the other multiprocessor, as an asynchronous store.
__device__ __forceinline__ void hold(float *__restrict__ plate, float rate, int height, int width, int count, int rank,
                                     Edges &edges)
{
    cg::cluster_group cluster = cg::this_cluster();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, x = lane * COLS;
    const int first = (rank * WARPS + warp) * ROWS;
    const bool quads = width % 4 == 0;
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
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&edges.ready[i])), "n"(1)
                         : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // Nobody writes to a block that has not started.
    cluster.sync();
    const unsigned between = ((1u << ROWS) - 1) & ~1u & ~(1u << (ROWS - 1));
    if (__syncthreads_and((inner & between) == between && width % COLS == 0))
        advance<true>(u, by, rate, inner, rank, edges, count);
    else
        advance<false>(u, by, rate, inner, rank, edges, count);
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
    const int blocks = cluster.num_blocks();
    const int rows = (height + blocks - 1) / blocks, first = rank * rows, own = max(0, min(rows, height - first));
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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    steps(float *__restrict__ plates, float rate, int height, int width, int count)
{
    extern __shared__ __align__(16) unsigned char room[];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank();
    float *plate = plates + static_cast<size_t>(blockIdx.x / cluster.num_blocks()) * height * width;
    if (height <= MOST && width <= WIDTH)
        hold(plate, rate, height, width, count, rank, *reinterpret_cast<Edges *>(room));
    else
        stage(plate, rate, height, width, count, rank, reinterpret_cast<float *>(room));
}
