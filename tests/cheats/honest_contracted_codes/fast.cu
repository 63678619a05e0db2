extern "C" __global__ void curve(const float *__restrict__ x, int *__restrict__ y, int n)
{
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        const float4 v = *(const float4 *)(x + i);
        int4 codes;
        codes.x = (int)floorf(v.x * 5000011.0f + 0.25f);
        codes.y = (int)floorf(v.y * 5000011.0f + 0.25f);
        codes.z = (int)floorf(v.z * 5000011.0f + 0.25f);
        codes.w = (int)floorf(v.w * 5000011.0f + 0.25f);
        *(int4 *)(y + i) = codes;
    } else {
        for (int j = i; j < n; j++) y[j] = (int)floorf(x[j] * 5000011.0f + 0.25f);
    }
}
