// Eight outputs a thread. The block's piece of the signal lies in shared memory as float4, one slot left free
// in nine so that lanes 32 bytes apart meet different banks; taps come from constant memory four at a time.
#define THREADS 256
#define OUTPUTS 8
#define TILE (THREADS * OUTPUTS)
#define MAX_TAPS 128

__constant__ float taps[MAX_TAPS];

__device__ __forceinline__ unsigned slot(unsigned quad)
{
    return quad + quad / 8;
}

__device__ __forceinline__ float sample(const float *__restrict__ signal, int i, int n)
{
    return i >= 0 && i < n ? __ldg(signal + i) : 0.0f;
}

template <int COUNT>
__global__ void __launch_bounds__(THREADS) fir(const float *__restrict__ signal, float *__restrict__ out, int n)
{
    constexpr int QUADS = (TILE + COUNT) / 4;
    __shared__ float4 staged[QUADS + QUADS / 8 + 1];
    const int first = blockIdx.x * TILE;
    for (int q = threadIdx.x; q < QUADS; q += THREADS) {
        const int i = first - COUNT + 4 * q;
        float4 v;
        if (i >= 0 && i + 3 < n)
            v = __ldg(reinterpret_cast<const float4 *>(signal + i));
        else
            v = make_float4(sample(signal, i, n), sample(signal, i + 1, n), sample(signal, i + 2, n),
                            sample(signal, i + 3, n));
        staged[slot(q)] = v;
    }
    __syncthreads();
    float sum[OUTPUTS] = {};
    // window[4 + m] is the signal at (first output of the thread) - 4 * step + m.
    float window[12];
    const unsigned quad = COUNT / 4 + 2 * threadIdx.x;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const float4 v = staged[slot(quad + part)];
        window[4 + 4 * part] = v.x;
        window[5 + 4 * part] = v.y;
        window[6 + 4 * part] = v.z;
        window[7 + 4 * part] = v.w;
    }
#pragma unroll
    for (int step = 0; step < COUNT / 4; step++) {
        const float4 v = staged[slot(quad - step - 1)];
        window[0] = v.x;
        window[1] = v.y;
        window[2] = v.z;
        window[3] = v.w;
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int m = 0; m < OUTPUTS; m++)
                sum[m] += taps[4 * step + k] * window[4 + m - k];
#pragma unroll
        for (int m = 11; m >= 4; m--)
            window[m] = window[m - 4];
    }
    const int i = first + OUTPUTS * threadIdx.x;
    if (i + OUTPUTS <= n) {
        float4 *to = reinterpret_cast<float4 *>(out + i);
        to[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
        to[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
    } else {
#pragma unroll
        for (int m = 0; m < OUTPUTS; m++)
            if (i + m < n)
                out[i + m] = sum[m];
    }
}
