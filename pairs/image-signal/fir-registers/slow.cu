#define THREADS 256
#define MAX_TAPS 128

__constant__ float taps[MAX_TAPS];

extern "C" __global__ void fir(const float *__restrict__ signal, float *__restrict__ out, int n, int count)
{
    __shared__ float staged[THREADS + MAX_TAPS];
    const int first = blockIdx.x * THREADS;
    for (int i = threadIdx.x; i < THREADS + count; i += THREADS) {
        const int at = first - count + i;
        staged[i] = at >= 0 && at < n ? signal[at] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < count; k++)
        sum += taps[k] * staged[threadIdx.x + count - k];
    if (first + threadIdx.x < n)
        out[first + threadIdx.x] = sum;
}
