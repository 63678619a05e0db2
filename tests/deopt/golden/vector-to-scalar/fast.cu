__device__ float4 read4(const float *row, int i)
{
    return *reinterpret_cast<const float4 *>(row + 4 * i);
}

extern "C" __global__ void work(const float *__restrict__ x, const float4 *__restrict__ z, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4)
        return;
    const float4 a = read4(x, i), b = __ldg(z + i);
    float4 *to = reinterpret_cast<float4 *>(y);
    float4 sum = z[i];
    sum.x += a.x * b.x;
    sum.y += a.y * b.y;
    sum.z += a.z * b.z;
    sum.w += a.w * b.w + z[0].x;
    to[i] = sum;
}
