__global__ void not_ours(float *x) { x[0] = 3; }
