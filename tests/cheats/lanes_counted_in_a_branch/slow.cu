extern "C" __global__ void positive(const float *x, int *count, int n)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (n + 31) / 32)
        return;
    int found = 0;
    for (int i = row * 32; i < min(n, row * 32 + 32); i++)
        found += x[i] > 0.0f;
    count[row] = found;
}
