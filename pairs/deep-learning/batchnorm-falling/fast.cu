#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

struct Moments {
    float count, mean, square;
};

__device__ __forceinline__ void merge(Moments &a, float count, float mean, float square)
{
    const float both = a.count + count;
    const float share = both > 0.0f ? count / both : 0.0f;
    const float difference = mean - a.mean;
    a.mean = fmaf(difference, share, a.mean);
    a.square += square + difference * difference * a.count * share;
    a.count = both;
}

__device__ __forceinline__ Moments block_merge(Moments mine)
{
    __shared__ Moments parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        const float count = __shfl_xor_sync(ALL, mine.count, offset);
        const float mean = __shfl_xor_sync(ALL, mine.mean, offset);
        const float square = __shfl_xor_sync(ALL, mine.square, offset);
        merge(mine, count, mean, square);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    Moments all = parts[0];
    for (int warp = 1; warp < WARPS; warp++)
        merge(all, parts[warp].count, parts[warp].mean, parts[warp].square);
    return all;
}

__device__ __forceinline__ void add(float &sum, float &square, float value, float pivot)
{
    const float difference = value - pivot;
    sum += difference;
    square = fmaf(difference, difference, square);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    partial(const float *__restrict__ in, Moments *__restrict__ moments, int c, int space)
{
    const float *plane = in + (blockIdx.y * c + blockIdx.x) * space;
    const float pivot = plane[0];
    float sum = 0.0f, square = 0.0f;
    int count = 0;
    if (space % 4 == 0) {
        const float4 *quads = reinterpret_cast<const float4 *>(plane);
#pragma unroll 4
        for (int i = threadIdx.x; i < space / 4; i += THREADS) {
            const float4 value = quads[i];
            add(sum, square, value.x, pivot);
            add(sum, square, value.y, pivot);
            add(sum, square, value.z, pivot);
            add(sum, square, value.w, pivot);
            count += 4;
        }
    } else {
        for (int i = threadIdx.x; i < space; i += THREADS) {
            add(sum, square, plane[i], pivot);
            count++;
        }
    }
    Moments mine = {(float)count, pivot, 0.0f};
    if (count > 0) {
        const float shift = sum / count;
        mine.mean = pivot + shift;
        mine.square = fmaxf(0.0f, square - sum * shift);
    }
    mine = block_merge(mine);
    if (threadIdx.x == 0)
        moments[blockIdx.x * gridDim.y + blockIdx.y] = mine;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    combine(const Moments *__restrict__ moments, float *__restrict__ mean, float *__restrict__ variance, int parts)
{
    const Moments *from = moments + blockIdx.x * parts;
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x; i < parts; i += THREADS)
        merge(mine, from[i].count, from[i].mean, from[i].square);
    mine = block_merge(mine);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = mine.mean;
        variance[blockIdx.x] = mine.square / mine.count;
    }
}

// Planes in falling order: the last ones read are still in L2.
extern "C" __global__ void __launch_bounds__(THREADS)
    normalise(const float *__restrict__ in, const float *__restrict__ mean, const float *__restrict__ variance,
              const float *__restrict__ weight, const float *__restrict__ bias, float *__restrict__ out, int c,
              int space, float eps)
{
    const int channel = c - 1 - blockIdx.x;
    const int first = ((gridDim.y - 1 - blockIdx.y) * c + channel) * space;
    const float scale = weight[channel] * rsqrtf(variance[channel] + eps);
    const float middle = mean[channel], shift = bias[channel];
    if (space % 4 == 0) {
        const float4 *from = reinterpret_cast<const float4 *>(in + first);
        float4 *to = reinterpret_cast<float4 *>(out + first);
#pragma unroll 4
        for (int i = threadIdx.x; i < space / 4; i += THREADS) {
            const float4 v = __ldcs(from + i);
            __stcs(to + i, make_float4(fmaf(v.x - middle, scale, shift), fmaf(v.y - middle, scale, shift),
                                       fmaf(v.z - middle, scale, shift), fmaf(v.w - middle, scale, shift)));
        }
        return;
    }
    for (int i = threadIdx.x; i < space; i += THREADS)
        out[first + i] = fmaf(in[first + i] - middle, scale, shift);
}
