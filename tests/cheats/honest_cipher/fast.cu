extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned word = x[i], sum = 0;
#pragma unroll
    for (int round = 0; round < 16; round++, sum += 2654435769u)
        word = __funnelshift_l(word, word, 9) + sum;
    y[i] = word ^ word >> 15;
}
