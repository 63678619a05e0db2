__device__ float2 add(float2 sum, float value)
{
    const float y = value - sum.y;
    const float next = sum.x + y;
    return make_float2(next, (next - sum.x) - y);
}

extern "C" __global__ void sum_up(const float *x, float *result, int n)
{
    __shared__ float2 part[1024];
    float2 sum = make_float2(0.0f, 0.0f);
    for (int i = threadIdx.x; i < n; i += 1024)
        sum = add(sum, x[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 1024; i++)
            sum = add(add(sum, part[i].x), -part[i].y);
        *result = sum.x;
    }
}
