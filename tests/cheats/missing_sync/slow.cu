extern "C" __global__ void reverse(const float *a, float *out)
{
    int row = blockIdx.x * 1024;
    out[row + threadIdx.x] = a[row + 1023 - threadIdx.x];
}
