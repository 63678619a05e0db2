__device__ inline float4 read_parts(const float4 *from)
{
    const float *part = reinterpret_cast<const float *>(from);
    return make_float4(part[0], part[1], part[2], part[3]);
}

__device__ inline void write_parts(float4 *to, float4 value)
{
    float *part = reinterpret_cast<float *>(to);
    part[0] = value.x;
    part[1] = value.y;
    part[2] = value.z;
    part[3] = value.w;
}

__device__ float4 read4(const float *row, int i)
{
    return read_parts(reinterpret_cast<const float4 *>(row + 4 * i));
}

extern "C" __global__ void work(const float *__restrict__ x, const float4 *__restrict__ z, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4)
        return;
    const float4 a = read4(x, i), b = read_parts(z + i);
    float4 *to = reinterpret_cast<float4 *>(y);
    float4 sum = read_parts(z + i);
    sum.x += a.x * b.x;
    sum.y += a.y * b.y;
    sum.z += a.z * b.z;
    sum.w += a.w * b.w + read_parts(z + 0).x;
    write_parts(to + i, sum);
}
