extern "C" __global__ void reverse(const float *a, float *out)
{
    __shared__ float row[1024];
    row[threadIdx.x] = a[blockIdx.x * 1024 + threadIdx.x];
    out[blockIdx.x * 1024 + threadIdx.x] = row[1023 - threadIdx.x];
}
