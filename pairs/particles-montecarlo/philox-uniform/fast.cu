#define THREADS 256

__device__ __forceinline__ float uniform(unsigned bits)
{
    return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// One counter gives four numbers, written at once.
extern "C" __global__ void __launch_bounds__(THREADS)
    generate(float *__restrict__ out, unsigned key_low, unsigned key_high, int n)
{
    for (int q = blockIdx.x * THREADS + threadIdx.x; q < (n + 3) / 4; q += gridDim.x * THREADS) {
        unsigned x = q, y = 0, z = 0, w = 0, low = key_low, high = key_high;
#pragma unroll
        for (int round = 0; round < 10; round++) {
            const unsigned a_high = __umulhi(0xD2511F53u, x), a_low = 0xD2511F53u * x;
            const unsigned b_high = __umulhi(0xCD9E8D57u, z), b_low = 0xCD9E8D57u * z;
            x = b_high ^ y ^ low;
            y = b_low;
            z = a_high ^ w ^ high;
            w = a_low;
            low += 0x9E3779B9u;
            high += 0xBB67AE85u;
        }
        const float4 four = make_float4(uniform(x), uniform(y), uniform(z), uniform(w));
        if (4 * q + 3 < n) {
            __stcs(reinterpret_cast<float4 *>(out) + q, four);
        } else {
            const float part[3] = {four.x, four.y, four.z};
#pragma unroll
            for (int k = 0; k < 3; k++)
                if (4 * q + k < n)
                    out[4 * q + k] = part[k];
        }
    }
}
