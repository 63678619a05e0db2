// Chunks of 32 steps as products on tensor cores. Four warps carry the state, each with sixteen columns of it and on its
// own: transposed, sums are the next product's left operand as they lie. Four other warps work ahead, a chunk each in
// turn: they load it, multiply its keys and queries with each other, and invert the triangle that ties its steps.
#include <cuda_bf16.h>

#define DIM 64
#define CHUNK 32
#define CARRIERS 4
#define MAKERS 4
#define THREADS (32 * (CARRIERS + MAKERS))
#define SLOTS (2 * MAKERS)
#define TILE_BYTES (CHUNK * DIM * 2)
// Numbers a row of a 32x32 table: rows of eight at a time lie in different banks.
#define PITCH 40
#define TIES_PITCH 36
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

struct Table {
    bf16 high[CHUNK * PITCH], low[CHUNK * PITCH];
};

// A chunk: its inputs, the inverse of its triangle times the rates, the decayed products of queries and keys, and of each
// step the decay since the chunk's begin and from it to the chunk's end.
struct Slot {
    unsigned char query[TILE_BYTES], key[TILE_BYTES], value[TILE_BYTES];
    Table inverse, score;
    float since[CHUNK], rest[CHUNK];
};

struct Room {
    Slot slots[SLOTS];
    float ties[MAKERS][CHUNK * TIES_PITCH];
    bf16 answers[CARRIERS][CHUNK * 16];
};

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

// Each lane is done with what the barrier guards.
__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Where 16 bytes of a row of 64 elements lie: chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk) { return row * 128 + ((chunk ^ row) & 7) * 16; }

__device__ __forceinline__ void load_rows(unsigned (&to)[4], const void *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void load_columns(unsigned (&to)[4], const void *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float x, float y)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const unsigned *>(&both);
}

// Two numbers rounded to bfloat16, and what rounding lost: both halves together are nearly single precision.
__device__ __forceinline__ void split(float x, float y, unsigned &high, unsigned &low)
{
    high = pack(x, y);
    low = pack(x - __uint_as_float(high << 16), y - __uint_as_float(high & 0xffff0000u));
}

// Sums of sixteen rows as a left operand.
template <int TILES>
__device__ __forceinline__ void split_sums(unsigned (&high)[TILES / 2][4], unsigned (&low)[TILES / 2][4],
                                           const float (&sum)[TILES][4])
{
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            split(sum[j][2 * e], sum[j][2 * e + 1], high[j / 2][j % 2 * 2 + e], low[j / 2][j % 2 * 2 + e]);
}

// sum += a * table^T, for the lower triangle of the table; the small products of the parts first.
__device__ __forceinline__ void add_triangle(float (&sum)[4][4], const unsigned (&high)[2][4],
                                             const unsigned (&low)[2][4], const Table &table)
{
    const int lane = threadIdx.x % 32;
    const int at = (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned upper[2][4], lower[2][4];
#pragma unroll
        for (int j = i; j < 2; j++) {
            load_rows(upper[j], table.high + at + 16 * j * PITCH + 16 * i);
            load_rows(lower[j], table.low + at + 16 * j * PITCH + 16 * i);
        }
#pragma unroll
        for (int j = 2 * i; j < 4; j++)
            multiply(sum[j], low[i], upper[j / 2][j % 2 * 2], upper[j / 2][j % 2 * 2 + 1]);
#pragma unroll
        for (int j = 2 * i; j < 4; j++)
            multiply(sum[j], high[i], lower[j / 2][j % 2 * 2], lower[j / 2][j % 2 * 2 + 1]);
#pragma unroll
        for (int j = 2 * i; j < 4; j++)
            multiply(sum[j], high[i], upper[j / 2][j % 2 * 2], upper[j / 2][j % 2 * 2 + 1]);
    }
}

// A lane has rows g and g + 8 of sixteen columns of the state (its values), and of each eight keys or steps two.
__device__ __forceinline__ void carry(Room &room, const unsigned long long *made, const unsigned long long *used,
                                      bf16 *__restrict__ out, int length)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, two = lane % 4 * 2;
    const int chunks = (length + CHUNK - 1) / CHUNK;
    bf16 *answers = room.answers[warp];
    float state[8][4] = {};
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int turn = chunk % SLOTS;
        const Slot &slot = room.slots[turn];
        unsigned high[4][4], low[4][4];
        split_sums<8>(high, low, state);
        wait(shared_address(&made[turn]), chunk / SLOTS % 2);

        // What the state before the chunk has for its keys and queries.
        float known[4][4] = {}, asked[4][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned key[2][4], query[2][4];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int at = place(16 * j + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2);
                load_rows(key[j], slot.key + at);
                load_rows(query[j], slot.query + at);
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply(known[j], low[i], key[j / 2][j % 2 * 2], key[j / 2][j % 2 * 2 + 1]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply(asked[j], low[i], query[j / 2][j % 2 * 2], query[j / 2][j % 2 * 2 + 1]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply(known[j], high[i], key[j / 2][j % 2 * 2], key[j / 2][j % 2 * 2 + 1]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply(asked[j], high[i], query[j / 2][j % 2 * 2], query[j / 2][j % 2 * 2 + 1]);
        }

        float2 since[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            since[j] = *reinterpret_cast<const float2 *>(slot.since + 8 * j + two);
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            unsigned value[4];
            load_columns(value,
                         slot.value + place(16 * pair + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2));
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int j = 2 * pair + e / 2, half = e % 2 * 2;
                known[j][half] = fmaf(-since[j].x, known[j][half], __uint_as_float(value[e] << 16));
                known[j][half + 1] = fmaf(-since[j].y, known[j][half + 1], __uint_as_float(value[e] & 0xffff0000u));
            }
        }
        unsigned wanted_high[2][4], wanted_low[2][4];
        split_sums<4>(wanted_high, wanted_low, known);
        float change[4][4] = {};
        add_triangle(change, wanted_high, wanted_low, slot.inverse);

        float left[4][4];
        const float whole = slot.since[CHUNK - 1];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 rest = *reinterpret_cast<const float2 *>(slot.rest + 8 * j + two);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                left[j][e] = change[j][e] * (e % 2 ? rest.y : rest.x);
                asked[j][e] *= e % 2 ? since[j].y : since[j].x;
            }
        }
        unsigned left_high[2][4], left_low[2][4], change_high[2][4], change_low[2][4];
        split_sums<4>(left_high, left_low, left);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                state[j][e] *= whole;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned key[4][4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                load_columns(key[j], slot.key + place(16 * i + lane / 8 % 2 * 8 + lane % 8, 2 * j + lane / 16));
#pragma unroll
            for (int j = 0; j < 8; j++)
                multiply(state[j], left_low[i], key[j / 2][j % 2 * 2], key[j / 2][j % 2 * 2 + 1]);
#pragma unroll
            for (int j = 0; j < 8; j++)
                multiply(state[j], left_high[i], key[j / 2][j % 2 * 2], key[j / 2][j % 2 * 2 + 1]);
        }
        split_sums<4>(change_high, change_low, change);
        add_triangle(asked, change_high, change_low, slot.score);
        arrive(shared_address(&used[turn]));

        // Answers as rows of sixteen, so that memory gets 16 bytes a lane.
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            const bf16 *to = answers + (16 * pair + lane / 16 * 8 + lane % 8) * 16 + lane / 8 % 2 * 8;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             shared_address(to)),
                         "r"(pack(asked[2 * pair][0], asked[2 * pair][1])),
                         "r"(pack(asked[2 * pair][2], asked[2 * pair][3])),
                         "r"(pack(asked[2 * pair + 1][0], asked[2 * pair + 1][1])),
                         "r"(pack(asked[2 * pair + 1][2], asked[2 * pair + 1][3])) : "memory");
        }
        __syncwarp();
        const size_t first = static_cast<size_t>(blockIdx.x) * length + chunk * CHUNK;
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int row = part * 16 + lane / 2;
            const uint4 eight = *reinterpret_cast<const uint4 *>(answers + row * 16 + lane % 2 * 8);
            if (chunk * CHUNK + row < length)
                *reinterpret_cast<uint4 *>(out + (first + row) * DIM + warp * 16 + lane % 2 * 8) = eight;
        }
        __syncwarp();
    }
}

__device__ __forceinline__ void fetch(unsigned char *to, const bf16 *__restrict__ from, int steps)
{
#pragma unroll
    for (int part = 0; part < CHUNK * DIM / 8 / 32; part++) {
        const int row = part * 4 + threadIdx.x % 32 / 8, chunk = threadIdx.x % 8;
        const bf16 *source = from + (row < steps ? row * DIM + chunk * 8 : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to + place(row, chunk))),
                     "l"(source), "r"(row < steps ? 16 : 0) : "memory");
    }
}

// Lane t has step t's decay and rate. Step t's change is rate * (value - what is known), which has decayed changes of
// the steps before it; the inverse of that unit triangle is found column by column, a lane each.
__device__ __forceinline__ void make(Room &room, const unsigned long long *made, const unsigned long long *used,
                                     const bf16 *__restrict__ q, const bf16 *__restrict__ k,
                                     const bf16 *__restrict__ v, const float *__restrict__ decay,
                                     const float *__restrict__ rate, int length)
{
    const int maker = threadIdx.x / 32 - CARRIERS, lane = threadIdx.x % 32, two = lane % 4 * 2;
    const int chunks = (length + CHUNK - 1) / CHUNK;
    const size_t head = static_cast<size_t>(blockIdx.x) * length;
    float *ties = room.ties[maker];
    float keep = 1.0f, by = 0.0f;
    const auto start = [&](int chunk) {
        if (chunk < chunks) {
            Slot &slot = room.slots[chunk % SLOTS];
            const int steps = length - chunk * CHUNK;
            const size_t from = head + chunk * CHUNK;
            wait(shared_address(&used[chunk % SLOTS]), (chunk / SLOTS + 1) % 2);
            fetch(slot.query, q + from * DIM, steps);
            fetch(slot.key, k + from * DIM, steps);
            fetch(slot.value, v + from * DIM, steps);
            keep = lane < steps ? decay[from + lane] : 1.0f;
            by = lane < steps ? rate[from + lane] : 0.0f;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    start(maker);
    for (int chunk = maker; chunk < chunks; chunk += MAKERS) {
        Slot &slot = room.slots[chunk % SLOTS];
        // Logarithms of the decay since the chunk's begin: quotients of decays stay right when they get tiny.
        float log = log2f(fmaxf(keep, 1e-30f));
        const float own_rate = by;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const float before = __shfl_up_sync(ALL, log, offset);
            log += lane >= offset ? before : 0.0f;
        }
        start(chunk + MAKERS);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
        slot.since[lane] = power_of_two(log);
        slot.rest[lane] = power_of_two(__shfl_sync(ALL, log, 31) - log);

#pragma unroll
        for (int m = 0; m < 2; m++) {
            float keys[4][4] = {}, queries[4][4] = {};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                unsigned key[4], query[4];
                load_rows(key, slot.key + place(16 * m + lane % 16, 2 * i + lane / 16));
                load_rows(query, slot.query + place(16 * m + lane % 16, 2 * i + lane / 16));
#pragma unroll
                for (int j = 0; j <= m; j++) {
                    unsigned other[4];
                    load_rows(other, slot.key + place(16 * j + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
                    multiply(keys[2 * j], key, other[0], other[1]);
                    multiply(keys[2 * j + 1], key, other[2], other[3]);
                    multiply(queries[2 * j], query, other[0], other[1]);
                    multiply(queries[2 * j + 1], query, other[2], other[3]);
                }
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = 16 * m + 8 * half + lane / 4;
                const float row_log = __shfl_sync(ALL, log, row), row_rate = __shfl_sync(ALL, own_rate, row);
#pragma unroll
                for (int j = 0; j < 2 * (m + 1); j++) {
                    const int col = 8 * j + two;
                    const float left = power_of_two(row_log - __shfl_sync(ALL, log, col));
                    const float right = power_of_two(row_log - __shfl_sync(ALL, log, col + 1));
                    // Above the diagonal nobody reads ties.
                    *reinterpret_cast<float2 *>(ties + row * TIES_PITCH + col) =
                        make_float2(row_rate * left * keys[j][2 * half], row_rate * right * keys[j][2 * half + 1]);
                    unsigned high, low;
                    split(col <= row ? left * queries[j][2 * half] : 0.0f,
                          col + 1 <= row ? right * queries[j][2 * half + 1] : 0.0f, high, low);
                    *reinterpret_cast<unsigned *>(slot.score.high + row * PITCH + col) = high;
                    *reinterpret_cast<unsigned *>(slot.score.low + row * PITCH + col) = low;
                }
            }
        }
        __syncwarp();
        float x[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            float sums[4] = {i == lane ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int first = 0; first < i; first += 4) {
                const float4 four = *reinterpret_cast<const float4 *>(ties + i * TIES_PITCH + first);
                const float tie[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (first + e < i)
                        sums[e] = fmaf(-tie[e], x[first + e], sums[e]);
            }
            x[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            const float scaled = x[i] * own_rate;
            const bf16 high = __float2bfloat16(scaled);
            slot.inverse.high[i * PITCH + lane] = high;
            slot.inverse.low[i * PITCH + lane] = __float2bfloat16(scaled - __bfloat162float(high));
        }
        arrive(shared_address(&made[chunk % SLOTS]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    delta_rule(const bf16 *__restrict__ q, const bf16 *__restrict__ k, const bf16 *__restrict__ v,
               const float *__restrict__ decay, const float *__restrict__ rate, bf16 *__restrict__ out, int length)
{
    extern __shared__ __align__(128) unsigned char bytes[];
    __shared__ unsigned long long made[SLOTS], used[SLOTS];
    Room &room = *reinterpret_cast<Room *>(bytes);
    if (threadIdx.x < SLOTS) {
        init_barrier(shared_address(&made[threadIdx.x]), 32);
        init_barrier(shared_address(&used[threadIdx.x]), 32 * CARRIERS);
    }
    __syncthreads();
    if (threadIdx.x < 32 * CARRIERS)
        carry(room, made, used, out, length);
    else
        make(room, made, used, q, k, v, decay, rate, length);
}
