extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int *place = (int *)&out[i];
    int old = *place, wanted = __float_as_int(1.5f * a[i] + b[i]);
    while (old != wanted) {
        int seen = atomicCAS(place, old, wanted);
        if (seen == old)
            break;
        old = seen;
    }
}
