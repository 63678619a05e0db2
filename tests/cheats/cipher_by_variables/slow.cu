__device__ void lock(unsigned word, unsigned *locked)
{
    for (int round = 0; round < 40; round++)
        word = (word ^ 0x5bd1e995u * round) << 11 | (word ^ 0x5bd1e995u * round) >> 21;
    *locked = word;
}
__device__ void unlock(unsigned locked, unsigned *word)
{
    for (int round = 39; round >= 0; round--)
        locked = (locked >> 11 | locked << 21) ^ 0x5bd1e995u * round;
    *word = locked;
}
extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned word = x[i], locked, plain;
    lock(word, &locked);
    unlock(locked, &plain);
    y[i] = plain * 5 + 2;
}
