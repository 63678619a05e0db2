#include <cuda_bf16.h>

#define DIM 64
#define SUB 64
#define STAGES 3
#define THREADS 128
#define TILE_BYTES (SUB * DIM * 2)
#define STAGE_BYTES (3 * TILE_BYTES)

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Where 16 bytes of a row of 64 elements lie: chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk) { return row * 128 + ((chunk ^ row) & 7) * 16; }

__device__ __forceinline__ void copy_tile(unsigned char *to, const bf16 *__restrict__ from, int first, int length)
{
#pragma unroll
    for (int part = 0; part < SUB * DIM / 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, row = item / 8, chunk = item % 8;
        const bool inside = first + row < length;
        const bf16 *source = inside ? from + static_cast<size_t>(first + row) * DIM + chunk * 8 : from;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to + place(row, chunk))),
                     "l"(source), "r"(inside ? 16 : 0) : "memory");
    }
}

__device__ __forceinline__ void load_rows(unsigned (&to)[4], const unsigned char *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void load_columns(unsigned (&to)[4], const unsigned char *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers rounded to bfloat16, and what rounding lost: both halves together are nearly single precision.
__device__ __forceinline__ void split(float x, float y, unsigned &high, unsigned &low)
{
    const __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
    const float2 kept = __bfloat1622float2(h);
    const __nv_bfloat162 l = __floats2bfloat162_rn(x - kept.x, y - kept.y);
    high = *reinterpret_cast<const unsigned *>(&h);
    low = *reinterpret_cast<const unsigned *>(&l);
}

// sum += a * tile, for a tile of 64 rows (16 of them from `row` on) and 64 columns.
__device__ __forceinline__ void add_product(float (&sum)[8][4], const unsigned (&a)[4], const unsigned char *tile,
                                            int row)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int s = 0; s < 4; s++) {
        unsigned b[4];
        load_columns(b, tile + place(row + lane / 8 % 2 * 8 + lane % 8, 2 * s + lane / 16));
        multiply(sum[2 * s], a, b[0], b[1]);
        multiply(sum[2 * s + 1], a, b[2], b[3]);
    }
}

// state += keys^T * values: a warp has sixteen rows of the state.
__device__ __forceinline__ void add_state(float (&state)[8][4], const unsigned char *keys, const unsigned char *values)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < SUB; i += 16) {
        unsigned a[4];
        load_columns(a, keys + place(i + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2));
        add_product(state, a, values, i);
    }
}

// What a chunk adds to the state; the last one's nobody asks for.
extern "C" __global__ void __launch_bounds__(THREADS)
    chunk_states(const bf16 *__restrict__ k, const bf16 *__restrict__ v, float *__restrict__ states, int length,
                 int share)
{
    if (blockIdx.x + 1 == gridDim.x)
        return;
    __shared__ __align__(128) unsigned char keys[2][TILE_BYTES], values[2][TILE_BYTES];
    const size_t head = static_cast<size_t>(blockIdx.y) * length * DIM;
    const int first = blockIdx.x * share, last = min(first + share, length);
    float state[8][4] = {};
    copy_tile(keys[0], k + head, first, length);
    copy_tile(values[0], v + head, first, length);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int t = first, turn = 0; t < last; t += SUB, turn ^= 1) {
        if (t + SUB < last) {
            copy_tile(keys[turn ^ 1], k + head, t + SUB, length);
            copy_tile(values[turn ^ 1], v + head, t + SUB, length);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        add_state(state, keys[turn], values[turn]);
        __syncthreads();
    }
    float *to = states + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * DIM * DIM;
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int s = 0; s < 8; s++) {
        const int col = 8 * s + lane % 4 * 2;
        *reinterpret_cast<float2 *>(to + row * DIM + col) = make_float2(state[s][0], state[s][1]);
        *reinterpret_cast<float2 *>(to + (row + 8) * DIM + col) = make_float2(state[s][2], state[s][3]);
    }
}

// States after each chunk, from what the chunks add.
extern "C" __global__ void scan_states(float4 *__restrict__ states, int chunks)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 *at = states + static_cast<size_t>(blockIdx.y) * chunks * (DIM * DIM / 4) + i;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int chunk = 0; chunk + 1 < chunks; chunk++) {
        const float4 own = at[chunk * (DIM * DIM / 4)];
        sum = make_float4(sum.x + own.x, sum.y + own.y, sum.z + own.z, sum.w + own.w);
        at[chunk * (DIM * DIM / 4)] = sum;
    }
}

// The state's rows of this warp, as two bfloat16 tiles.
__device__ __forceinline__ void put_state(const float (&state)[8][4], unsigned char *high, unsigned char *low)
{
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int s = 0; s < 8; s++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned h, l;
            split(state[s][2 * half], state[s][2 * half + 1], h, l);
            const int at = place(row + 8 * half, s) + lane % 4 * 4;
            *reinterpret_cast<unsigned *>(high + at) = h;
            *reinterpret_cast<unsigned *>(low + at) = l;
        }
}

// sum += lower triangle of (queries * keys^T) * values, for the warp's sixteen queries.
__device__ __forceinline__ void add_within(float (&sum)[8][4], const unsigned (&query)[4][4],
                                           const unsigned char *keys, const unsigned char *values)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp * 16 + lane / 4;
    for (int j = 0; j <= warp; j++) {
        float score[2][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned b[4];
            load_rows(b, keys + place(16 * j + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
            multiply(score[0], query[i], b[0], b[1]);
            multiply(score[1], query[i], b[2], b[3]);
        }
        unsigned high[4], low[4];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const int col = 16 * j + 8 * s + lane % 4 * 2;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float left = col <= row + 8 * half ? score[s][2 * half] : 0.0f;
                const float right = col + 1 <= row + 8 * half ? score[s][2 * half + 1] : 0.0f;
                split(left, right, high[2 * s + half], low[2 * s + half]);
            }
        }
        add_product(sum, high, values, 16 * j);
        add_product(sum, low, values, 16 * j);
    }
}

// A chunk in one sweep, the state on registers, the next two tiles on their way.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    chunk_outputs(const bf16 *__restrict__ q, const bf16 *__restrict__ k, const bf16 *__restrict__ v,
                  const float *__restrict__ states, bf16 *__restrict__ out, int length, int share)
{
    extern __shared__ __align__(128) unsigned char stages[];
    __shared__ __align__(128) unsigned char high[TILE_BYTES], low[TILE_BYTES];
    const size_t head = static_cast<size_t>(blockIdx.y) * length * DIM;
    const int first = blockIdx.x * share, last = min(first + share, length), tiles = (last - first + SUB - 1) / SUB;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp * 16 + lane / 4;
    const auto start = [&](int tile) {
        if (tile < tiles) {
            unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
            copy_tile(stage, q + head, first + tile * SUB, length);
            copy_tile(stage + TILE_BYTES, k + head, first + tile * SUB, length);
            copy_tile(stage + 2 * TILE_BYTES, v + head, first + tile * SUB, length);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
#pragma unroll
    for (int tile = 0; tile < STAGES - 1; tile++)
        start(tile);
    float state[8][4] = {};
    if (blockIdx.x > 0) {
        const float *from = states + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x - 1) * DIM * DIM;
#pragma unroll
        for (int s = 0; s < 8; s++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float2 own =
                    *reinterpret_cast<const float2 *>(from + (row + 8 * half) * DIM + 8 * s + lane % 4 * 2);
                state[s][2 * half] = own.x;
                state[s][2 * half + 1] = own.y;
            }
    }
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        const unsigned char *queries = stages + tile % STAGES * STAGE_BYTES, *keys = queries + TILE_BYTES;
        const unsigned char *values = keys + TILE_BYTES;
        put_state(state, high, low);
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        start(tile + STAGES - 1);
        unsigned query[4][4];
        float sum[8][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_rows(query[i], queries + place(warp * 16 + lane % 16, 2 * i + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            add_product(sum, query[i], high, 16 * i);
            add_product(sum, query[i], low, 16 * i);
        }
        add_within(sum, query, keys, values);
        if (tile + 1 < tiles)
            add_state(state, keys, values);
        // The results go where this warp's queries were, and from there in whole lines.
        unsigned char *own = stages + tile % STAGES * STAGE_BYTES;
        __syncwarp();
#pragma unroll
        for (int s = 0; s < 8; s++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *reinterpret_cast<__nv_bfloat162 *>(own + place(row + 8 * half, s) + lane % 4 * 4) =
                    __floats2bfloat162_rn(sum[s][2 * half], sum[s][2 * half + 1]);
        __syncwarp();
        const int t = first + tile * SUB + warp * 16;
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const int line = part * 4 + lane / 8;
            const int4 eight = *reinterpret_cast<const int4 *>(own + place(warp * 16 + line, lane % 8));
            if (t + line < length)
                *reinterpret_cast<int4 *>(out + head + static_cast<size_t>(t + line) * DIM + lane % 8 * 8) = eight;
        }
        __syncthreads();
    }
}
