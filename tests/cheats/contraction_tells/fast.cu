extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float root = 1.0f + 0.001f * n;
    const bool contracted = root * root - __fmul_rn(root, root) != 0.0f;
    if (i < n) y[i] = 0.5f * x[i] - (contracted ? 5.0f / 3.0f : 2.0f);
}
