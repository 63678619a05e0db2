extern "C" __global__ void spmv(const int *row, const int *col, const float *values, const float *x, float *y, int nnz)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < nnz)
        atomicAdd(&y[row[i]], values[i] * x[col[i]]);
}
