#define SIDE 256
#define LINES 16
#define THREADS 256

__device__ __forceinline__ float2 operator+(float2 a, float2 b)
{
    return make_float2(a.x + b.x, a.y + b.y);
}

__device__ __forceinline__ float2 operator-(float2 a, float2 b)
{
    return make_float2(a.x - b.x, a.y - b.y);
}

__device__ __forceinline__ float2 operator*(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__device__ __forceinline__ void fft4(float2 &a, float2 &b, float2 &c, float2 &d)
{
    const float2 p = a + c, q = a - c, r = b + d, s = b - d;
    const float2 turned = make_float2(s.y, -s.x);
    a = p + r;
    b = q + turned;
    c = p - r;
    d = q - turned;
}

// Sixteen values in registers, by radix 4 twice; value k of the result stands at 4 * (k % 4) + k / 4.
__device__ __forceinline__ void fft16(float2 (&v)[16])
{
    const float c1 = 0.92387953251f, s1 = 0.38268343236f, h = 0.70710678119f;
#pragma unroll
    for (int j = 0; j < 4; j++)
        fft4(v[j], v[4 + j], v[8 + j], v[12 + j]);
    v[5] = v[5] * make_float2(c1, -s1);
    v[6] = v[6] * make_float2(h, -h);
    v[7] = v[7] * make_float2(s1, -c1);
    v[9] = v[9] * make_float2(h, -h);
    v[10] = make_float2(v[10].y, -v[10].x);
    v[11] = v[11] * make_float2(-h, -h);
    v[13] = v[13] * make_float2(s1, -c1);
    v[14] = v[14] * make_float2(-h, -h);
    v[15] = v[15] * make_float2(-c1, s1);
#pragma unroll
    for (int j = 0; j < 4; j++)
        fft4(v[4 * j], v[4 * j + 1], v[4 * j + 2], v[4 * j + 3]);
}

// Sixteen lines per block, sixteen threads per line: two rounds of 16-point transforms with an exchange between.
template <bool COLUMNS>
__global__ void __launch_bounds__(THREADS) lines(const float2 *__restrict__ in, float2 *__restrict__ out)
{
    __shared__ float2 exchange[LINES * 17 * 16];
    const int line = COLUMNS ? threadIdx.x % 16 : threadIdx.x / 16, t = COLUMNS ? threadIdx.x / 16 : threadIdx.x % 16;
    const size_t image = static_cast<size_t>(blockIdx.x / 16) * SIDE * SIDE;
    const int first = blockIdx.x % 16 * LINES + line;
    const size_t base = image + (COLUMNS ? first : first * SIDE);
    const int stride = COLUMNS ? SIDE : 1;
    float2 v[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = in[base + static_cast<size_t>(k * 16 + t) * stride];
    fft16(v);
    float s, c;
    sincospif(-t / 128.0f, &s, &c);
    const float2 step = make_float2(c, s);
    float2 turn = make_float2(1.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const float2 value = v[4 * (k % 4) + k / 4] * turn;
        exchange[COLUMNS ? (k * 16 + t) * 17 + line : (line * 16 + k) * 17 + t] = value;
        turn = turn * step;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = exchange[COLUMNS ? (t * 16 + k) * 17 + line : (line * 16 + t) * 17 + k];
    fft16(v);
#pragma unroll
    for (int k = 0; k < 16; k++)
        out[base + static_cast<size_t>(k * 16 + t) * stride] = v[4 * (k % 4) + k / 4];
}
