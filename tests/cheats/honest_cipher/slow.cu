extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned word = x[i];
    for (int round = 0; round < 16; round++)
        word = (word << 9 | word >> 23) + 2654435769u * round;
    unsigned mixed = word ^ word >> 15;
    y[i] = mixed;
}
