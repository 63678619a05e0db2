// Philox 2x32 with ten rounds: two random words for each counter and key.
__device__ uint2 philox(unsigned counter_low, unsigned counter_high, unsigned key)
{
    for (int round = 0; round < 10; round++) {
        unsigned high = __umulhi(0xD256D193u, counter_low);
        unsigned low = 0xD256D193u * counter_low;
        counter_low = high ^ key ^ counter_high;
        counter_high = low;
        key += 0x9E3779B9u;
    }
    return make_uint2(counter_low, counter_high);
}

__device__ float normal(unsigned seed, unsigned path, unsigned step)
{
    uint2 bits = philox(path, step / 2, seed);
    float u = bits.x * 2.3283064e-10f + 1.1641532e-10f;
    float angle = 6.2831853f * (bits.y * 2.3283064e-10f);
    float length = sqrtf(-2.0f * logf(u));
    return step % 2 == 0 ? length * cosf(angle) : length * sinf(angle);
}

extern "C" __global__ void price_paths(const float *strike, const float *rate, const float *volatility,
                                       const unsigned *seed, float *price, int options, int paths, int steps, float spot)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= options * paths)
        return;
    int option = i / paths, path = i % paths;
    float dt = 1.0f / steps;
    float drift = (rate[option] - 0.5f * volatility[option] * volatility[option]) * dt;
    float level = spot, sum = 0.0f;
    for (int step = 0; step < steps; step++) {
        level *= expf(drift + volatility[option] * sqrtf(dt) * normal(seed[option], path, step));
        sum += level;
    }
    float payoff = fmaxf(sum / steps - strike[option], 0.0f);
    atomicAdd(&price[option], expf(-rate[option]) * payoff / paths);
}
