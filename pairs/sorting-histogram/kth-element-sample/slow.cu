#define THREADS 512
#define DIGITS 2048
#define FULL 0xffffffffu

// Bits 31..21, 20..10 and 9..0 in three passes. `state` holds the upper bits found so far and the rank among what has
// them.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ values, const unsigned *__restrict__ state, int *__restrict__ counts,
                 int n, int pass)
{
    __shared__ int bins[DIGITS];
    for (int b = threadIdx.x; b < DIGITS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0;
    const unsigned mask = pass == 2 ? 1023 : 2047, upper = pass == 0 ? 0 : state[0];
    const int above = pass == 1 ? 21 : 10;
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
#pragma unroll 4
    for (int q = thread; q < n / 4; q += threads) {
        const uint4 four = __ldcs(reinterpret_cast<const uint4 *>(values) + q);
        const unsigned item[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (pass == 0 || item[e] >> above == upper)
                atomicAdd(bins + (item[e] >> shift & mask), 1);
    }
    for (int i = n / 4 * 4 + thread; i < n; i += threads)
        if (pass == 0 || values[i] >> above == upper)
            atomicAdd(bins + (values[i] >> shift & mask), 1);
    __syncthreads();
    for (int b = threadIdx.x; b < DIGITS; b += THREADS)
        if (bins[b])
            atomicAdd(counts + pass * DIGITS + b, bins[b]);
}

// One block: the digit in which the rank falls, by a scan of the counts.
extern "C" __global__ void __launch_bounds__(THREADS)
    choose(const int *__restrict__ counts, unsigned *__restrict__ state, unsigned *__restrict__ answer, int k, int pass)
{
    __shared__ int totals[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int rank = pass == 0 ? k : static_cast<int>(state[1]);
    const unsigned upper = pass == 0 ? 0 : state[0];
    const int4 four = reinterpret_cast<const int4 *>(counts + pass * DIGITS)[threadIdx.x];
    const int own = four.x + four.y + four.z + four.w;
    int upto = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, upto, distance);
        if (lane >= distance)
            upto += other;
    }
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    int before = upto - own;
    for (int w = 0; w < warp; w++)
        before += totals[w];
    if (rank < before || rank >= before + own)
        return;
    const int part[4] = {four.x, four.y, four.z, four.w};
    int digit = 4 * threadIdx.x, left = rank - before;
#pragma unroll
    for (int e = 0; e < 3; e++) {
        if (digit == static_cast<int>(4 * threadIdx.x) + e && left >= part[e]) {
            left -= part[e];
            digit++;
        }
    }
    state[0] = upper << (pass == 2 ? 10 : 11) | digit;
    state[1] = left;
    if (pass == 2)
        *answer = state[0];
}
