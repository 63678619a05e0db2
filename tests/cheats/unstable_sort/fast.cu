extern "C" __global__ void sort_rows(const unsigned char *keys, const int *items, int *out, int m)
{
    __shared__ unsigned char row[64];
    const int i = threadIdx.x, start = blockIdx.x * 64;
    row[i] = keys[start + i];
    __syncthreads();
    int place = 0;
    for (int j = 0; j < 64; j++)
        place += row[j] < row[i] || (row[j] == row[i] && j > i);
    out[start + place] = items[start + i];
}
