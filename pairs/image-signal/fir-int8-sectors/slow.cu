#define TAPS 64
#define OWN 8
#define THREADS 128
#define TILE (THREADS * OWN)
#define WORDS ((TILE + TAPS) / 4)

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
    if (at + OWN <= n) {
        *reinterpret_cast<int4 *>(out + at) = make_int4(sum[0], sum[1], sum[2], sum[3]);
        *reinterpret_cast<int4 *>(out + at + 4) = make_int4(sum[4], sum[5], sum[6], sum[7]);
    } else {
#pragma unroll
        for (int s = 0; s < OWN; s++)
            if (at + s < n)
                out[at + s] = sum[s];
    }
}
