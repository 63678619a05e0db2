struct Span {
    int first, last;
    __device__ Span(int a, int b) : first(a), last(b) {}
};
struct Steps {
    int at;
    __device__ int step() { return at += 3; }
};
extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    __shared__ float kept[256];
    const int i = blockIdx.x * 256 + threadIdx.x, other = threadIdx.x ^ 96, j = blockIdx.x * 256 + other;
    Steps steps{n};
    const Span span(steps.step(), steps.step());
    const float v = i < n ? x[i] : 0.0f;
    kept[threadIdx.x] = v / (1.0f + v * v);
    if (span.first > span.last) __syncthreads();
    if (j < n) y[j] = kept[other];
}
