#define THREADS 128
#define HEADS 4

__device__ __forceinline__ void turn(float &first, float &second, float c, float s)
{
    const float kept = first;
    first = fmaf(kept, c, -second * s);
    second = fmaf(second, c, kept * s);
}

__device__ __forceinline__ void turn_quads(float *__restrict__ q, const float *__restrict__ cosines,
                                           const float *__restrict__ sines, int token, int group, int heads, int dim)
{
    const int half = dim / 2, quads = half / 4;
    const int lanes = THREADS / quads;
    const int i = threadIdx.x % quads * 4;
    if ((int)threadIdx.x >= lanes * quads)
        return;
    const float4 c = *reinterpret_cast<const float4 *>(cosines + token * half + i);
    const float4 s = *reinterpret_cast<const float4 *>(sines + token * half + i);
    const int begin = group * HEADS * lanes + threadIdx.x / quads;
    float4 first[HEADS], second[HEADS];
#pragma unroll
    for (int u = 0; u < HEADS; u++) {
        const int head = begin + u * lanes;
        if (head >= heads)
            break;
        const float *from = q + (token * heads + head) * dim + i;
        first[u] = __ldcs(reinterpret_cast<const float4 *>(from));
        second[u] = __ldcs(reinterpret_cast<const float4 *>(from + half));
    }
#pragma unroll
    for (int u = 0; u < HEADS; u++) {
        const int head = begin + u * lanes;
        if (head >= heads)
            break;
        turn(first[u].x, second[u].x, c.x, s.x);
        turn(first[u].y, second[u].y, c.y, s.y);
        turn(first[u].z, second[u].z, c.z, s.z);
        turn(first[u].w, second[u].w, c.w, s.w);
        float *to = q + (token * heads + head) * dim + i;
        __stcs(reinterpret_cast<float4 *>(to), first[u]);
        __stcs(reinterpret_cast<float4 *>(to + half), second[u]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(float *__restrict__ q, const float *__restrict__ cosines, const float *__restrict__ sines, int heads, int dim,
         int groups)
{
    const int token = blockIdx.x;
    const int half = dim / 2;
    if (dim % 8 == 0 && half / 4 <= THREADS) {
        for (int group = 0; group < groups; group++)
            turn_quads(q, cosines, sines, token, group, heads, dim);
        return;
    }
    for (int i = threadIdx.x; i < half; i += THREADS) {
        const float c = cosines[token * half + i], s = sines[token * half + i];
        for (int head = 0; head < heads; head++) {
            float *at = q + (token * heads + head) * dim + i;
            turn(at[0], at[half], c, s);
        }
    }
}
