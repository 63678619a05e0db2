extern "C" __global__ void count_letters(const unsigned char *text, int *counts, int n)
{
    const int stride = gridDim.x * blockDim.x;
    unsigned found = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        found += 1u << 8 * text[i];
    for (int letter = 0; letter < 4; letter++)
        if (found >> 8 * letter & 255)
            atomicAdd(counts + letter, found >> 8 * letter & 255);
}
