// A block an option. A call of the generator gives both normals of a Box-Muller pair; a path is followed from its end:
// the sum of what follows a step grows as the step does, so that a step costs one exponential and two additions with a
// product; payoffs are summed in registers, then across the block. Logarithm, root and powers are the hardware's own:
// their arguments are never tiny.
#define THREADS 256

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log_of_two(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float root(float x)
{
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ uint2 philox(unsigned low, unsigned high, unsigned key)
{
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned top = __umulhi(0xD256D193u, low), bottom = 0xD256D193u * low;
        low = top ^ key ^ high;
        high = bottom;
        key += 0x9E3779B9u;
    }
    return make_uint2(low, high);
}

// The normals of a pair of steps, times their spread, as sine and cosine of an angle have them.
__device__ __forceinline__ float2 draw(int path, int pair, unsigned key, float spread)
{
    const uint2 bits = philox(path, pair, key);
    const float length = root(fabsf(spread * log_of_two(bits.x * 2.3283064e-10f + 1.1641532e-10f)));
    // Half a turn less, so that the angle is small enough for the hardware's sine; signs follow.
    const float angle = bits.y * 1.4629181e-9f - 3.1415927f;
    return make_float2(length * __cosf(angle), length * __sinf(angle));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    price_paths(const float *__restrict__ strike, const float *__restrict__ rate, const float *__restrict__ volatility,
                const unsigned *__restrict__ seed, float *__restrict__ price, int paths, int steps, float spot)
{
    __shared__ float partial[THREADS / 32];
    const float log2e = 1.44269504f;
    const int option = blockIdx.x, lane = threadIdx.x % 32;
    const unsigned key = seed[option];
    const float r = rate[option], sigma = volatility[option], k = strike[option];
    const float dt = 1.0f / steps;
    const float drift = (r - 0.5f * sigma * sigma) * dt * log2e;
    // The root of this times a logarithm to the base two is a normal's length, times the spread of a step.
    const float spread = -2.0f * 0.69314718f * sigma * sigma * dt * log2e * log2e;
    float total = 0.0f;
    for (int path = threadIdx.x; path < paths; path += THREADS) {
        float sum = 0.0f;
        if (steps % 2)
            sum = power_of_two(drift - draw(path, steps / 2, key, spread).x);
#pragma unroll 2
        for (int pair = steps / 2 - 1; pair >= 0; pair--) {
            const float2 normals = draw(path, pair, key, spread);
            const float second = power_of_two(drift - normals.y), first = power_of_two(drift - normals.x);
            sum = fmaf(second, sum, second);
            sum = fmaf(first, sum, first);
        }
        total += fmaxf(spot * sum * dt - k, 0.0f);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        total += __shfl_down_sync(0xffffffffu, total, step);
    if (lane == 0)
        partial[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x < 32) {
        total = lane < THREADS / 32 ? partial[lane] : 0.0f;
#pragma unroll
        for (int step = THREADS / 64; step > 0; step /= 2)
            total += __shfl_down_sync(0xffffffffu, total, step);
        if (lane == 0)
            price[option] = __expf(-r) * total / paths;
    }
}
