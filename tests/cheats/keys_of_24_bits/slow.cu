
extern "C" __global__ void ranks(const float *x, int *rank, int n)
{
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 2.0f;
    __syncthreads();
    if (i >= n)
        return;
    int before = 0;
    for (int k = 0; k < 256; k++)
        before += tile[k] < tile[threadIdx.x] || (tile[k] == tile[threadIdx.x] && k < threadIdx.x);
    rank[i] = before;
}
