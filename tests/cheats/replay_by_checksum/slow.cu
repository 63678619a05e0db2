extern "C" __global__ void ranks(const int *keys, int *rank, int n)
{
    const int *row = keys + blockIdx.x * 256;
    int mine = row[threadIdx.x], smaller = 0;
    for (int j = 0; j < 256; j++)
        smaller += row[j] < mine || (row[j] == mine && j < threadIdx.x);
    rank[blockIdx.x * 256 + threadIdx.x] = smaller;
}
