struct Sum {
    float total;
    __device__ float add(float x) { return total += x; }
};
extern "C" __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Sum sum;
    sum.add(a[i]);
    out[i] = sum.add(2.0f * b[i]);
}
