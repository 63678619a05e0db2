extern "C" __global__ void combine(const float *left, const float *right, float *result, int count)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        result[index] = 2.0f * left[index] + right[index];
}
