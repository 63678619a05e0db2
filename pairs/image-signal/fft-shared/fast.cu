// A block transforms one line of 1 << LOG_N values in shared memory: ordered by reversed bits as it is loaded,
// then all radix-2 stages in place.
template <int LOG_N>
__global__ void transform(const float2 *__restrict__ in, float2 *__restrict__ out)
{
    constexpr int N = 1 << LOG_N;
    __shared__ float2 line[N];
    const float2 *from = in + (size_t)blockIdx.x * N;
    float2 *to = out + (size_t)blockIdx.x * N;
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        line[__brev(i) >> (32 - LOG_N)] = from[i];
    __syncthreads();
    for (int half = 1; half < N; half *= 2) {
        for (int i = threadIdx.x; i < N / 2; i += blockDim.x) {
            const int k = i % half, low = 2 * i - k;
            float s, c;
            sincospif(-(float)k / half, &s, &c);
            const float2 a = line[low], b = line[low + half];
            const float re = b.x * c - b.y * s, im = b.x * s + b.y * c;
            line[low] = make_float2(a.x + re, a.y + im);
            line[low + half] = make_float2(a.x - re, a.y - im);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        to[i] = line[i];
}
