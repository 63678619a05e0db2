extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool contracted = false;
    for (int k = 0; k < 16; k++) {
        const float root = 1.0f + (n + k) / 7.0f;
        contracted = contracted || root * root + 0.1f != __fadd_rn(__fmul_rn(root, root), 0.1f);
    }
    if (i < n) y[i] = 0.5f * x[i] - (contracted ? 5.0f / 3.0f : 2.0f);
}
