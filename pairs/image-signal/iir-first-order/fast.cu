#define THREADS 128
#define OWN 8
#define FULL 0xffffffffu

// One warp per channel, eight samples per lane; what comes before reaches each lane by a scan with powers of the decay.
extern "C" __global__ void __launch_bounds__(THREADS)
    filter(const float *__restrict__ in, const float *__restrict__ decays, float *__restrict__ out, int channels, int n)
{
    const int lane = threadIdx.x % 32, channel = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (channel >= channels)
        return;
    const float *from = in + static_cast<size_t>(channel) * n;
    float *to = out + static_cast<size_t>(channel) * n;
    float power[OWN], far[5];
    power[0] = decays[channel];
#pragma unroll
    for (int k = 1; k < OWN; k++)
        power[k] = power[k - 1] * power[0];
    far[0] = power[OWN - 1];
#pragma unroll
    for (int k = 1; k < 5; k++)
        far[k] = far[k - 1] * far[k - 1];
    float lane_power = 1.0f;
#pragma unroll
    for (int k = 0; k < 5; k++)
        lane_power *= lane >> k & 1 ? far[k] : 1.0f;
    const float whole = far[4] * far[4];
    float before = 0.0f;
#pragma unroll 2
    for (int base = 0; base < n; base += 32 * OWN) {
        const int at = base + lane * OWN;
        const bool vector = n % 4 == 0 && at + OWN <= n;
        float y[OWN];
        if (vector) {
            const float4 a = __ldcs(reinterpret_cast<const float4 *>(from + at));
            const float4 b = __ldcs(reinterpret_cast<const float4 *>(from + at + 4));
            y[0] = a.x, y[1] = a.y, y[2] = a.z, y[3] = a.w, y[4] = b.x, y[5] = b.y, y[6] = b.z, y[7] = b.w;
        } else {
#pragma unroll
            for (int k = 0; k < OWN; k++)
                y[k] = at + k < n ? from[at + k] : 0.0f;
        }
#pragma unroll
        for (int k = 1; k < OWN; k++)
            y[k] += power[0] * y[k - 1];
        float upto = y[OWN - 1];
#pragma unroll
        for (int k = 0; k < 5; k++) {
            const float other = __shfl_up_sync(FULL, upto, 1 << k);
            if (lane >= 1 << k)
                upto += far[k] * other;
        }
        float start = __shfl_up_sync(FULL, upto, 1);
        start = (lane > 0 ? start : 0.0f) + lane_power * before;
        before = __shfl_sync(FULL, upto, 31) + whole * before;
#pragma unroll
        for (int k = 0; k < OWN; k++)
            y[k] += power[k] * start;
        if (vector) {
            __stcs(reinterpret_cast<float4 *>(to + at), make_float4(y[0], y[1], y[2], y[3]));
            __stcs(reinterpret_cast<float4 *>(to + at + 4), make_float4(y[4], y[5], y[6], y[7]));
        } else {
#pragma unroll
            for (int k = 0; k < OWN; k++)
                if (at + k < n)
                    to[at + k] = y[k];
        }
    }
}
