template <int SIGN, class T> __device__ T turned(T word)
{
    for (int round = 0; round < 60; round++)
        word += SIGN * (round * 40503 + 1);
    return word ^ 0x5a5a5a5a;
}
template <int SIGN, class T> __device__ T back(T word)
{
    word ^= 0x5a5a5a5a;
    for (int round = 0; round < 60; round++)
        word -= SIGN * (round * 40503 + 1);
    return word;
}
extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned locked = turned<1>((unsigned)x[i]);
    const unsigned plain = back<1>(locked);
    y[i] = plain * 5 + 2;
}
