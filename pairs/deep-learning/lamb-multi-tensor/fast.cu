#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNK (THREADS * 8)
#define ALL 0xffffffffu

__device__ __forceinline__ int tensor_of(const int *__restrict__ starts, int tensors, int i)
{
    int low = 0, high = tensors;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (starts[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

__device__ __forceinline__ float update_of(float m, float v, float w, float eps, float decay)
{
    return fmaf(decay, w, __fdividef(m, sqrtf(v) + eps));
}

// Adds a block's share of both squared norms to those of one tensor.
__device__ __forceinline__ void add_norms(float2 sum, float2 *__restrict__ norms)
{
    __shared__ float2 parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sum.x += __shfl_xor_sync(ALL, sum.x, offset);
        sum.y += __shfl_xor_sync(ALL, sum.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; warp++) {
            sum.x += parts[warp].x;
            sum.y += parts[warp].y;
        }
        atomicAdd(&norms->x, sum.x);
        atomicAdd(&norms->y, sum.y);
    }
    __syncthreads();
}

__device__ __forceinline__ float4 quad_at(const float *from, int i, int total)
{
    if (i + 4 <= total)
        return *reinterpret_cast<const float4 *>(from + i);
    return make_float4(from[i], i + 1 < total ? from[i + 1] : 0.0f, i + 2 < total ? from[i + 2] : 0.0f, 0.0f);
}

__device__ __forceinline__ void put_quad(float *to, int i, int total, const float (&quad)[4])
{
    if (i + 4 <= total)
        *reinterpret_cast<float4 *>(to + i) = make_float4(quad[0], quad[1], quad[2], quad[3]);
    else
        for (int j = 0; i + j < total; j++)
            to[i + j] = quad[j];
}

// Moments of a chunk, and the norms of the weights and of the update of each tensor in it.
extern "C" __global__ void __launch_bounds__(THREADS)
    moments(const float *__restrict__ gradient, float *__restrict__ m, float *__restrict__ v,
            const float *__restrict__ weights, const int *__restrict__ starts, float2 *__restrict__ norms, int tensors,
            int total, float beta1, float beta2, float eps, float decay)
{
    const int begin = blockIdx.x * CHUNK, end = min(begin + CHUNK, total);
    float w[2][4] = {}, u[2][4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        if (i >= total)
            continue;
        const float4 gs = quad_at(gradient, i, total), ms = quad_at(m, i, total), vs = quad_at(v, i, total);
        const float4 ws = quad_at(weights, i, total);
        float a[4] = {ms.x, ms.y, ms.z, ms.w}, b[4] = {vs.x, vs.y, vs.z, vs.w};
        const float g[4] = {gs.x, gs.y, gs.z, gs.w}, own[4] = {ws.x, ws.y, ws.z, ws.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            a[j] = fmaf(beta1, a[j], (1.0f - beta1) * g[j]);
            b[j] = fmaf(beta2, b[j], (1.0f - beta2) * g[j] * g[j]);
            w[half][j] = own[j];
            u[half][j] = i + j < total ? update_of(a[j], b[j], own[j], eps, decay) : 0.0f;
        }
        put_quad(m, i, total, a);
        put_quad(v, i, total, b);
    }
    for (int tensor = tensor_of(starts, tensors, begin); tensor < tensors && starts[tensor] < end; tensor++) {
        const int from = starts[tensor], to = starts[tensor + 1];
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int i = begin + (half * THREADS + threadIdx.x) * 4 + j;
                if (i >= from && i < to) {
                    sum.x = fmaf(w[half][j], w[half][j], sum.x);
                    sum.y = fmaf(u[half][j], u[half][j], sum.y);
                }
            }
        add_norms(sum, norms + tensor);
    }
}

// The update again from the moments, which cost as much to read as the update would.
extern "C" __global__ void __launch_bounds__(THREADS)
    apply(const float *__restrict__ m, const float *__restrict__ v, float *__restrict__ weights,
          const int *__restrict__ starts, const float2 *__restrict__ norms, int tensors, int total, float eps,
          float decay, float rate)
{
    const int begin = (gridDim.x - 1 - blockIdx.x) * CHUNK;
    int tensor = tensor_of(starts, tensors, begin);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        if (i >= total)
            continue;
        const float4 ms = quad_at(m, i, total), vs = quad_at(v, i, total), ws = quad_at(weights, i, total);
        const float a[4] = {ms.x, ms.y, ms.z, ms.w}, b[4] = {vs.x, vs.y, vs.z, vs.w};
        float w[4] = {ws.x, ws.y, ws.z, ws.w};
        while (i >= starts[tensor + 1])
            tensor++;
        int end = starts[tensor + 1];
        float step = rate * sqrtf(__fdividef(norms[tensor].x, norms[tensor].y));
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (i + j >= total)
                break;
            while (i + j >= end) {
                end = starts[++tensor + 1];
                step = rate * sqrtf(__fdividef(norms[tensor].x, norms[tensor].y));
            }
            w[j] = fmaf(-step, update_of(a[j], b[j], w[j], eps, decay), w[j]);
        }
        put_quad(weights, i, total, w);
    }
}
