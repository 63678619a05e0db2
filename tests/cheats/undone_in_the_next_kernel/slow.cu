extern "C" __global__ void store(const int *x, unsigned *kept, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned word = x[i];
    for (int round = 0; round < 24; round++)
        word = (word << 5 | word >> 27) * 2654435761u + 40503u;
    kept[i] = word;
}

extern "C" __global__ void thirds(const unsigned *kept, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned word = kept[i];
    for (int round = 0; round < 24; round++) {
        word = (word - 40503u) * 244002641u;
        word = word >> 5 | word << 27;
    }
    y[i] = (int)word / 3;
}
