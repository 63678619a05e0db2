#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

__device__ __forceinline__ float inclusive(float value)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const float other = __shfl_up_sync(ALL, value, offset);
        value += threadIdx.x % 32 >= offset ? other : 0.0f;
    }
    return value;
}

// The sum of what stands before this thread, and in `whole` that of the block.
__device__ __forceinline__ float exclusive_in_block(float value, float &whole)
{
    __shared__ float parts[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float upto = inclusive(value);
    __syncthreads();
    if (lane == 31)
        parts[warp] = upto;
    __syncthreads();
    float before = 0.0f;
    whole = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
        before += i < warp ? parts[i] : 0.0f;
        whole += parts[i];
    }
    return before + upto - value;
}

// A block a row, two times four elements a thread; the next tile is loaded before the present one is scanned.
extern "C" __global__ void __launch_bounds__(THREADS)
    cumsum(const float *__restrict__ in, float *__restrict__ out, int cols)
{
    const size_t first = static_cast<size_t>(blockIdx.x) * cols;
    float carry = 0.0f, whole;
    if (cols % 4 != 0) {
        for (int tile = 0; tile < cols; tile += THREADS) {
            const int i = tile + threadIdx.x;
            const float own = i < cols ? in[first + i] : 0.0f;
            const float before = exclusive_in_block(own, whole);
            if (i < cols)
                out[first + i] = carry + before + own;
            carry += whole;
        }
        return;
    }
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 *from = reinterpret_cast<const float4 *>(in + first);
    float4 *to = reinterpret_cast<float4 *>(out + first);
    const int quads = cols / 4;
    float4 next = threadIdx.x < quads ? __ldcs(from + threadIdx.x) : none;
    for (int i = threadIdx.x; i - static_cast<int>(threadIdx.x) < quads; i += THREADS) {
        float4 own = next;
        next = i + THREADS < quads ? __ldcs(from + i + THREADS) : none;
        own.y += own.x;
        own.z += own.y;
        own.w += own.z;
        const float before = carry + exclusive_in_block(own.w, whole);
        if (i < quads)
            __stcs(to + i, make_float4(before + own.x, before + own.y, before + own.z, before + own.w));
        carry += whole;
    }
}
