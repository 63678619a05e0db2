extern "C" __global__ void affine(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = 1.5f * x[i] + 1.0f;
}
