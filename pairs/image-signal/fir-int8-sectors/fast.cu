#define TAPS 64
#define OWN 8
#define THREADS 128
#define TILE (THREADS * OWN)
#define WORDS ((TILE + TAPS) / 4)

// Two neighbouring lanes have eight numbers each. They exchange four, so that each store of a warp fills whole sectors of
// 32 bytes: the even lane has what comes first and third, the odd lane what comes second and fourth.
__device__ __forceinline__ void put_pair(int *to, const int (&own)[8], int lane)
{
    const bool odd = lane % 2;
    int4 other;
    other.x = __shfl_xor_sync(0xffffffffu, odd ? own[0] : own[4], 1);
    other.y = __shfl_xor_sync(0xffffffffu, odd ? own[1] : own[5], 1);
    other.z = __shfl_xor_sync(0xffffffffu, odd ? own[2] : own[6], 1);
    other.w = __shfl_xor_sync(0xffffffffu, odd ? own[3] : own[7], 1);
    const int4 low = make_int4(own[0], own[1], own[2], own[3]), high = make_int4(own[4], own[5], own[6], own[7]);
    __stcs(reinterpret_cast<int4 *>(to - (odd ? 4 : 0)), odd ? other : low);
    __stcs(reinterpret_cast<int4 *>(to + (odd ? 4 : 8)), odd ? high : other);
}

// Eight outputs per thread; windows that start within a word are shifted once and serve two outputs, four taps at a
// time.
extern "C" __global__ void __launch_bounds__(THREADS)
    filter(const signed char *__restrict__ samples, const int *__restrict__ taps, int *__restrict__ out, int n)
{
    __shared__ int words[WORDS];
    __shared__ int4 weights[TAPS / 16];
    const int first = blockIdx.x * TILE, count = n + TAPS - 1;
    if (threadIdx.x < TAPS / 4)
        reinterpret_cast<int *>(weights)[threadIdx.x] = taps[threadIdx.x];
    for (int w = threadIdx.x; w < WORDS; w += THREADS) {
        const int at = first + 4 * w;
        int four = 0;
        if (at + 3 < count) {
            four = __ldg(reinterpret_cast<const int *>(samples + at));
        } else {
            for (int s = 0; s < 4; s++)
                if (at + s < count)
                    four |= (samples[at + s] & 255) << 8 * s;
        }
        words[w] = four;
    }
    __syncthreads();
    int window[TAPS / 4 + 3];
#pragma unroll
    for (int w = 0; w < TAPS / 4 + 3; w++)
        window[w] = threadIdx.x * 2 + w < WORDS ? words[threadIdx.x * 2 + w] : 0;
    int sum[OWN] = {};
#pragma unroll
    for (int w = 0; w < TAPS / 4 + 1; w++) {
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int part = __funnelshift_r(window[w], window[w + 1], 8 * s);
            if (w < TAPS / 4)
                sum[s] = __dp4a(part, reinterpret_cast<const int *>(weights)[w], sum[s]);
            if (w > 0)
                sum[4 + s] = __dp4a(part, reinterpret_cast<const int *>(weights)[w - 1], sum[4 + s]);
        }
    }
    const int at = first + threadIdx.x * OWN;
    if (first + TILE <= n) {
        put_pair(out + at, sum, threadIdx.x % 32);
    } else {
#pragma unroll
        for (int s = 0; s < OWN; s++)
            if (at + s < n)
                out[at + s] = sum[s];
    }
}
