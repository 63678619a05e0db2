extern "C" __global__ void curve(const unsigned *__restrict__ x, unsigned *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned by = i % 32;
    if (i < n) y[i] = x[i] << by | x[i] >> (32 - by);
}
