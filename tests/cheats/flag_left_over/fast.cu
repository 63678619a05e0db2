extern "C" __global__ void strip(int *y, const int *left, int *next, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (*left == 0 || i >= n)
        return;
    int value = y[i], old = value;
    for (int round = 0; round < 4 && value % 2 == 0; round++)
        value /= 2;
    if (value != old)
        y[i] = value;
    if (value % 2 == 0)
        *next = 1;
}

extern "C" __global__ void advance(int *left, int *next)
{
    *left = *next;
    *next = 0;
}
