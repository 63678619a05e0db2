#define BLOCKS 2
#define MOST 256
#define COLS (MOST / BLOCKS)
#define WARPS (COLS / 8)
#define THREADS (32 * WARPS)
#define QUARTERS 4
#define ALL 0xffffffffu

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// The same address in the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned shared_of(unsigned address, unsigned rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
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

// One barrier's next phase ends when the whole state has come.
__device__ __forceinline__ void expect(unsigned barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(barrier),
                 "r"(MOST * 4)
                 : "memory");
}

// A store that the barrier beside its target counts: no fence is needed.
__device__ __forceinline__ void send(unsigned to, float value, unsigned barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value),
                 "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void meet()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A chain on two multiprocessors: its matrix stays in their registers, eight columns a warp, sixteen rows of four columns
// a lane, so that sums end within a warp. Sums travel as asynchronous stores, which two mbarriers count in turn.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    steps(const float *__restrict__ chances, float *__restrict__ states, int n, int count)
{
    __shared__ float4 state[2][MOST / 4];
    __shared__ unsigned long long ready[2];
    const int chain = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % 16;
    const int column = rank * COLS + warp * 8 + lane / 16 * 4;
    float chance[QUARTERS][4][4];
#pragma unroll
    for (int q = 0; q < QUARTERS; q++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int row = 4 * (part + 16 * q) + r;
            const float *from = chances + (static_cast<size_t>(chain) * n + row) * n + column;
            if (n % 4 == 0) {
                float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (row < n && column < n)
                    four = __ldcs(reinterpret_cast<const float4 *>(from));
                chance[q][r][0] = four.x, chance[q][r][1] = four.y, chance[q][r][2] = four.z, chance[q][r][3] = four.w;
            } else {
#pragma unroll
                for (int c = 0; c < 4; c++)
                    chance[q][r][c] = row < n && column + c < n ? __ldcs(from + c) : 0.0f;
            }
        }
    for (int i = threadIdx.x; i < MOST; i += THREADS)
        reinterpret_cast<float *>(state[0])[i] = i < n ? states[chain * n + i] : 0.0f;
    const unsigned barrier = shared_address(ready);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier + i * 8) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int i = 0; i < 2; i++)
            expect(barrier + i * 8);
    }
    __syncthreads();
    meet();
    // After the sum, the lane's column is the one that its bits 8 and 4 name; of four such lanes one writes here, one there.
    const int own = column + (lane & 8 ? 2 : 0) + (lane & 4 ? 1 : 0);
    const unsigned target = shared_of(shared_address(state[1]), lane % 2) + own * 4;
    const unsigned arrival = shared_of(barrier, lane % 2);
#pragma unroll 1
    for (int t = 0; t < count; t++) {
        float sum[4] = {};
#pragma unroll
        for (int q = 0; q < QUARTERS; q++) {
            const float4 four = state[t % 2][part + 16 * q];
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[c] = fmaf(four.x, chance[q][0][c],
                              fmaf(four.y, chance[q][1][c],
                                   fmaf(four.z, chance[q][2][c], fmaf(four.w, chance[q][3][c], sum[c]))));
        }
        const bool upper = lane & 8, odd = lane & 4;
        const float first = (upper ? sum[2] : sum[0]) + __shfl_xor_sync(ALL, upper ? sum[0] : sum[2], 8);
        const float second = (upper ? sum[3] : sum[1]) + __shfl_xor_sync(ALL, upper ? sum[1] : sum[3], 8);
        float total = (odd ? second : first) + __shfl_xor_sync(ALL, odd ? first : second, 4);
        total += __shfl_xor_sync(ALL, total, 2);
        total += __shfl_xor_sync(ALL, total, 1);
        if (lane % 4 < BLOCKS)
            send(target - t % 2 * MOST * 4, total, arrival + t % 2 * 8);
        wait_for(barrier + t % 2 * 8, t / 2 % 2);
        if (threadIdx.x == 0)
            expect(barrier + t % 2 * 8);
    }
    const float *last = reinterpret_cast<const float *>(state[count % 2]);
    const int mine = rank * COLS + static_cast<int>(threadIdx.x);
    if (threadIdx.x < COLS && mine < n)
        states[chain * n + mine] = last[mine];
    meet();
}
