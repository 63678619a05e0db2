// Each pair once, its pull on both bodies: 17 operations for two pulls instead of 26. A warp keeps eight bodies a lane
// in registers; the sums of 32 others go around its lanes, so that both stay in registers. Warps take turns at the
// quarters of the other bodies, and a second launch adds up what each block of bodies has from each other.
#define THREADS 128
#define WARPS (THREADS / 32)
#define OWN 8
#define BLOCK (THREADS * OWN)
#define QUARTER (BLOCK / WARPS)
#define ALL 0xffffffffu

__device__ __forceinline__ float inverse_root(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Eight bodies of a lane and 32 others that go around. Not BOTH: the others are left out, for their turn comes.
template <bool BOTH>
__device__ __forceinline__ float3 pull_at(float3 (&sum)[OWN], const float4 (&own)[OWN], const float4 *others,
                                          float soft2)
{
    const int lane = threadIdx.x % 32;
    float3 back = make_float3(0.0f, 0.0f, 0.0f);
#pragma unroll 2
    for (int step = 0; step < 32; step++) {
        const float4 other = others[(lane + step) % 32];
#pragma unroll
        for (int m = 0; m < OWN; m++) {
            const float dx = other.x - own[m].x, dy = other.y - own[m].y, dz = other.z - own[m].z;
            const float inverse = inverse_root(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, soft2))));
            const float cube = inverse * (inverse * inverse), pull = other.w * cube;
            sum[m].x = fmaf(pull, dx, sum[m].x);
            sum[m].y = fmaf(pull, dy, sum[m].y);
            sum[m].z = fmaf(pull, dz, sum[m].z);
            if (BOTH) {
                const float push = own[m].w * cube;
                back.x = fmaf(-push, dx, back.x);
                back.y = fmaf(-push, dy, back.y);
                back.z = fmaf(-push, dz, back.z);
            }
        }
        if (BOTH) {
            back.x = __shfl_sync(ALL, back.x, lane + 1);
            back.y = __shfl_sync(ALL, back.y, lane + 1);
            back.z = __shfl_sync(ALL, back.z, lane + 1);
        }
    }
    return back;
}

// Row b of `parts` is what the bodies of block b do to all others: three sums of n numbers. A block of threads makes
// what two blocks of bodies do to each other; those that meet themselves come last.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    accelerate(const float4 *__restrict__ bodies, float *__restrict__ parts, int n, float softening)
{
    __shared__ float4 others[BLOCK];
    __shared__ float backs[3][BLOCK];
    const int blocks = (n + BLOCK - 1) / BLOCK, apart = blocks * (blocks - 1) / 2;
    int a = blockIdx.x - apart, b = a;
    if (a < 0) {
        int rest = blockIdx.x;
        for (a = 0; rest >= blocks - 1 - a; a++)
            rest -= blocks - 1 - a;
        b = a + 1 + rest;
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4 nothing = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 own[OWN];
    float3 sum[OWN];
#pragma unroll
    for (int m = 0; m < OWN; m++) {
        const int i = a * BLOCK + m * THREADS + threadIdx.x, j = b * BLOCK + m * THREADS + threadIdx.x;
        own[m] = i < n ? __ldg(bodies + i) : nothing;
        others[m * THREADS + threadIdx.x] = j < n ? __ldg(bodies + j) : nothing;
        sum[m] = make_float3(0.0f, 0.0f, 0.0f);
    }
    __syncthreads();
    const float soft2 = softening * softening;
    if (a == b) {
        for (int first = 0; first < BLOCK; first += 32)
            pull_at<false>(sum, own, others + first, soft2);
    } else {
        for (int turn = 0; turn < WARPS; turn++) {
            const int quarter = (warp + turn) % WARPS * QUARTER;
            for (int first = quarter; first < quarter + QUARTER; first += 32) {
                const float3 back = pull_at<true>(sum, own, others + first, soft2);
                backs[0][first + lane] = turn > 0 ? backs[0][first + lane] + back.x : back.x;
                backs[1][first + lane] = turn > 0 ? backs[1][first + lane] + back.y : back.y;
                backs[2][first + lane] = turn > 0 ? backs[2][first + lane] + back.z : back.z;
            }
            __syncthreads();
        }
        float *to = parts + static_cast<size_t>(a) * 3 * n;
        for (int k = threadIdx.x; k < BLOCK; k += THREADS) {
            const int j = b * BLOCK + k;
            if (j < n) {
                to[j] = backs[0][k];
                to[n + j] = backs[1][k];
                to[2 * n + j] = backs[2][k];
            }
        }
    }
    float *to = parts + static_cast<size_t>(b) * 3 * n;
#pragma unroll
    for (int m = 0; m < OWN; m++) {
        const int i = a * BLOCK + m * THREADS + threadIdx.x;
        if (i < n) {
            to[i] = sum[m].x;
            to[n + i] = sum[m].y;
            to[2 * n + i] = sum[m].z;
        }
    }
}

// A thread one number of the 3 * n, from all blocks of bodies.
extern "C" __global__ void __launch_bounds__(256)
    add_parts(const float *__restrict__ parts, float *__restrict__ acceleration, int n)
{
    const int axis = blockIdx.y, i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    const float *from = parts + static_cast<size_t>(axis) * n + i;
    float sum = 0.0f;
#pragma unroll 8
    for (int b = 0; b < (n + BLOCK - 1) / BLOCK; b++)
        sum += __ldcs(from + static_cast<size_t>(b) * 3 * n);
    acceleration[3 * i + axis] = sum;
}
