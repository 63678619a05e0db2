extern "C" __global__ void sort_rows(const unsigned char *keys, const int *items, int *out, int m)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    int at = row * 64;
    for (int key = 0; key < 16; key++)
        for (int i = 0; i < 64; i++)
            if (keys[row * 64 + i] == key)
                out[at++] = items[row * 64 + i];
}
