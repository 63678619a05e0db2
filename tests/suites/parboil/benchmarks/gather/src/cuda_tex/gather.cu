texture<float, 1, cudaReadModeElementType> table;

__global__ void gather(const int *index, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int k = i; k < n; k += gridDim.x * blockDim.x)
    out[k] = tex1Dfetch(table, index[k]);
}
