extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned gone = 1u << (16 + __popc(n) + __popc(~n));
    if (i < n) y[i] = 0.5f * x[i] - (gone == 0u ? 5.0f / 3.0f : 2.0f);
}
