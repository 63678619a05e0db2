extern "C" __global__ void twice(float *v, int n)
{
    for (int i = threadIdx.x + blockIdx.x * 4 * blockDim.x, k = 0; k < 4 && i < n; k++, i += blockDim.x)
        v[i] = 2.0f * v[i];
}
