#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void log_sum(const __nv_bfloat16 *logits, float *result, int vocab, float temperature)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    float largest = __bfloat162float(row[0]);
    for (int i = tid; i < vocab; i += THREADS)
        largest = fmaxf(largest, __bfloat162float(row[i]));
    part[tid] = largest;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = tid; i < vocab; i += THREADS)
        sum += expf((__bfloat162float(row[i]) - largest) / temperature);
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        result[blockIdx.x] = logf(part[0]) + largest / temperature;
}

extern "C" __global__ void divergence(const __nv_bfloat16 *student, const __nv_bfloat16 *teacher,
                                      const float *student_sum, const float *teacher_sum, float *loss, int vocab,
                                      float temperature)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x, row = blockIdx.x;
    float sum = 0.0f;
    for (int i = tid; i < vocab; i += THREADS) {
        size_t at = (size_t)row * vocab + i;
        float p = __bfloat162float(teacher[at]) / temperature - teacher_sum[row];
        float q = __bfloat162float(student[at]) / temperature - student_sum[row];
        sum += expf(p) * (p - q);
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        loss[row] = part[0] * temperature * temperature;
}
