__global__ void lost(float *x) { x[threadIdx.x] += 1.0f; }
