template <class T>
__device__ inline T lane_value(unsigned mask, T value, int lane, int width = 32)
{
    __shared__ T slots[128];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int own = thread & (width - 1);
    __syncwarp(mask);
    slots[thread] = value;
    __syncwarp(mask);
    const T other = slots[thread - own + (lane & (width - 1))];
    __syncwarp(mask);
    return other;
}

template <class T>
__device__ inline T lane_value_down(unsigned mask, T value, int lane, int width = 32)
{
    __shared__ T slots[128];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int own = thread & (width - 1);
    __syncwarp(mask);
    slots[thread] = value;
    __syncwarp(mask);
    const T other = slots[thread - own + (own + lane >= width ? own : own + lane)];
    __syncwarp(mask);
    return other;
}

template <class T>
__device__ inline T lane_value_xor(unsigned mask, T value, int lane, int width = 32)
{
    __shared__ T slots[128];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int own = thread & (width - 1);
    __syncwarp(mask);
    slots[thread] = value;
    __syncwarp(mask);
    const T other = slots[thread - own + (own ^ lane)];
    __syncwarp(mask);
    return other;
}

extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float sum = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2)
        sum += lane_value_down(0xffffffffu, sum, offset);
    const float first = lane_value(0xffffffffu, sum, 0), beside = lane_value_xor(0xffffffffu, first + lane, 1);
    if (i < n)
        y[i] = beside;
}
