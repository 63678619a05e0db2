// A block transforms one line of N = 16^PASSES values; a thread holds 16 of them. Each pass is a transform of 16
// in registers (two layers of radix 4); between passes values change places through shared memory, padded by
// one in 16 so that strides of 16 meet different banks.
__device__ __forceinline__ float2 times(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__device__ __forceinline__ void transform4(float2 &a, float2 &b, float2 &c, float2 &d)
{
    const float2 p = make_float2(a.x + c.x, a.y + c.y), q = make_float2(a.x - c.x, a.y - c.y);
    const float2 r = make_float2(b.x + d.x, b.y + d.y), s = make_float2(b.y - d.y, d.x - b.x);
    a = make_float2(p.x + r.x, p.y + r.y);
    b = make_float2(q.x + s.x, q.y + s.y);
    c = make_float2(p.x - r.x, p.y - r.y);
    d = make_float2(q.x - s.x, q.y - s.y);
}

// In: value r in v[r]. Out: frequency 4 * (k % 4) + k / 4 lies in v[k].
__device__ __forceinline__ void transform16(float2 (&v)[16])
{
    const float h = 0.70710678f, c = 0.92387953f, s = 0.38268343f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        transform4(v[i], v[i + 4], v[i + 8], v[i + 12]);
    v[5] = times(v[5], make_float2(c, -s));
    v[6] = times(v[6], make_float2(h, -h));
    v[7] = times(v[7], make_float2(s, -c));
    v[9] = times(v[9], make_float2(h, -h));
    v[10] = make_float2(v[10].y, -v[10].x);
    v[11] = times(v[11], make_float2(-h, -h));
    v[13] = times(v[13], make_float2(s, -c));
    v[14] = times(v[14], make_float2(-h, -h));
    v[15] = times(v[15], make_float2(-c, s));
#pragma unroll
    for (int i = 0; i < 16; i += 4)
        transform4(v[i], v[i + 1], v[i + 2], v[i + 3]);
}

__device__ __forceinline__ int padded(int i)
{
    return i + i / 16;
}

template <int PASSES>
__global__ void __launch_bounds__(1 << (4 * PASSES - 4))
    transform(const float2 *__restrict__ in, float2 *__restrict__ out)
{
    constexpr int N = 1 << (4 * PASSES), THREADS = N / 16;
    __shared__ float2 line[PASSES > 1 ? N + N / 16 : 1];
    const int j = threadIdx.x, own = padded(j);
    const float2 *from = in + (size_t)blockIdx.x * N;
    float2 *to = out + (size_t)blockIdx.x * N;
    float2 v[16];
#pragma unroll
    for (int r = 0; r < 16; r++)
        v[r] = from[j + r * THREADS];
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) {
        const int done = 1 << (4 * pass);
        const int k = j & (done - 1);
        if (pass > 0) {
            float2 w[16];
            sincospif(-2.0f * k / (16 * done), &w[1].y, &w[1].x);
#pragma unroll
            for (int r = 2; r < 16; r++)
                w[r] = times(w[r / 2], w[r - r / 2]);
#pragma unroll
            for (int r = 1; r < 16; r++)
                v[r] = times(v[r], w[r]);
        }
        transform16(v);
        const int first = (j - k) * 16 + k;
        if (pass + 1 == PASSES) {
#pragma unroll
            for (int r = 0; r < 16; r++)
                to[first + r * done] = v[r % 4 * 4 + r / 4];
        } else {
            if (pass > 0)
                __syncthreads();
            const int start = padded(first);
#pragma unroll
            for (int r = 0; r < 16; r++)
                line[start + r * (done + done / 16)] = v[r % 4 * 4 + r / 4];
            __syncthreads();
#pragma unroll
            for (int r = 0; r < 16; r++)
                v[r] = line[own + r * (THREADS + THREADS / 16)];
        }
    }
}
