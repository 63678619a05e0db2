// All iterations in one cooperative launch, with every vector in registers: a block owns eight rows, a thread two
// columns. Chronopoulos and Gear's form of the method needs both sums at once, so that blocks meet once an iteration:
// each posts its sums and the outer rows of A r, and waits for the sums of all.
#define ROWS 8
#define MOST 512
#define FULL 0xffffffffu

typedef unsigned long long word;

__device__ __forceinline__ float2 plus(float2 a, float scale, float2 b)
{
    return make_float2(fmaf(scale, b.x, a.x), fmaf(scale, b.y, a.y));
}

// The sums of both numbers over the block, in every thread.
__device__ __forceinline__ float2 block_sum(float2 value, float2 *parts)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(FULL, value.x, offset);
        value.y += __shfl_xor_sync(FULL, value.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    float2 sum = make_float2(0.0f, 0.0f);
    for (int w = 0; w < blockDim.x / 32; w++) {
        sum.x += parts[w].x;
        sum.y += parts[w].y;
    }
    return sum;
}

// Sums are posted inverted, for a word of zeros means that nothing has come yet.
__device__ __forceinline__ void post(word *to, float2 sums)
{
    const word bits = static_cast<word>(__float_as_uint(sums.x)) << 32 | __float_as_uint(sums.y);
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(max(~bits, 1ull)) : "memory");
}

__device__ __forceinline__ float2 await(const word *from)
{
    word bits;
    do {
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    } while (bits == 0);
    return make_float2(__uint_as_float(static_cast<unsigned>(~bits >> 32)), __uint_as_float(static_cast<unsigned>(~bits)));
}

extern "C" __global__ void __launch_bounds__(MOST, 1)
    solve(const float *__restrict__ b, float *__restrict__ x, float2 *edges, word *sums, int height, int width,
          int iterations)
{
    __shared__ float2 parts[2][MOST / 32];
    __shared__ float rims[ROWS][2][MOST / 32 + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = 2 * threadIdx.x, first = blockIdx.x * ROWS;
    const bool one = column < width, two = column + 1 < width;
    if (threadIdx.x < 2 * ROWS) {
        rims[threadIdx.x / 2][0][blockDim.x / 32] = 0.0f;
        rims[threadIdx.x / 2][1][0] = 0.0f;
    }
    // Row 0 of rest and drop is the one above the block's, row ROWS + 1 the one below.
    float2 rest[ROWS + 2], drop[ROWS + 2], applied[ROWS + 2], way[ROWS], at[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS + 2; i++) {
        const int row = first + i - 1;
        const bool there = row >= 0 && row < height;
        const float *from = b + static_cast<size_t>(row) * width + column;
        rest[i] = make_float2(there && one ? from[0] : 0.0f, there && two ? from[1] : 0.0f);
        drop[i] = make_float2(0.0f, 0.0f);
        applied[i] = make_float2(0.0f, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        way[i] = at[i] = make_float2(0.0f, 0.0f);
    float square = 1.0f, alpha = 1.0f;
    for (int t = 0; t < iterations; t++) {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (lane == 0)
                rims[i][0][warp] = rest[i + 1].x;
            if (lane == 31)
                rims[i][1][warp + 1] = rest[i + 1].y;
        }
        __syncthreads();
        float2 own = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const float2 centre = rest[i + 1];
            float left = __shfl_up_sync(FULL, centre.y, 1), right = __shfl_down_sync(FULL, centre.x, 1);
            if (lane == 0)
                left = rims[i][1][warp];
            if (lane == 31)
                right = rims[i][0][warp + 1];
            const bool there = first + i < height; // outside the grid everything stays zero
            const float x0 = fmaf(4.0f, centre.x, -((left + centre.y) + (rest[i].x + rest[i + 2].x)));
            const float x1 = fmaf(4.0f, centre.y, -((centre.x + right) + (rest[i].y + rest[i + 2].y)));
            applied[i + 1] = make_float2(there && one ? x0 : 0.0f, there && two ? x1 : 0.0f);
            own.x = fmaf(centre.x, centre.x, fmaf(centre.y, centre.y, own.x));
            own.y = fmaf(centre.x, applied[i + 1].x, fmaf(centre.y, applied[i + 1].y, own.y));
        }
        float2 *shown = edges + static_cast<size_t>(t % 2) * gridDim.x * 2 * blockDim.x + threadIdx.x;
        shown[(2 * blockIdx.x) * blockDim.x] = applied[1];
        shown[(2 * blockIdx.x + 1) * blockDim.x] = applied[ROWS];
        const float2 mine = block_sum(own, parts[0]);
        word *posted = sums + static_cast<size_t>(t) * gridDim.x;
        if (threadIdx.x == 0)
            post(posted + blockIdx.x, mine);
        own = make_float2(0.0f, 0.0f);
        for (int other = threadIdx.x; other < gridDim.x; other += blockDim.x) {
            const float2 theirs = await(posted + other);
            own.x += theirs.x;
            own.y += theirs.y;
        }
        const float2 all = block_sum(own, parts[1]);
        if (blockIdx.x > 0)
            applied[0] = __ldcg(shown + (2 * blockIdx.x - 1) * blockDim.x);
        if (blockIdx.x + 1 < gridDim.x)
            applied[ROWS + 1] = __ldcg(shown + (2 * blockIdx.x + 2) * blockDim.x);
        const float beta = t > 0 ? all.x / square : 0.0f;
        alpha = all.x / (t > 0 ? all.y - beta * all.x / alpha : all.y);
        square = all.x;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            way[i] = plus(rest[i + 1], beta, way[i]);
            at[i] = plus(at[i], alpha, way[i]);
        }
#pragma unroll
        for (int i = 0; i < ROWS + 2; i++) {
            drop[i] = plus(applied[i], beta, drop[i]);
            rest[i] = plus(rest[i], -alpha, drop[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float *to = x + static_cast<size_t>(first + i) * width + column;
        if (first + i < height && one)
            to[0] = at[i].x;
        if (first + i < height && two)
            to[1] = at[i].y;
    }
}
