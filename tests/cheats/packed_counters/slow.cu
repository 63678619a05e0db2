extern "C" __global__ void count_letters(const unsigned char *text, int *counts, int n)
{
    const int stride = gridDim.x * blockDim.x;
    int found[4] = {0, 0, 0, 0};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        for (int letter = 0; letter < 4; letter++)
            found[letter] += text[i] == letter;
    for (int letter = 0; letter < 4; letter++)
        if (found[letter])
            atomicAdd(counts + letter, found[letter]);
}
