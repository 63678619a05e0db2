extern "C" __global__ void pack(const unsigned *values, unsigned *words, int n, int bits)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long long position = (long long)i * bits;
    int word = position / 32;
    int shift = position % 32;
    atomicOr(&words[word], values[i] << shift);
    if (shift + bits > 32)
        atomicOr(&words[word + 1], values[i] >> (32 - shift));
}
