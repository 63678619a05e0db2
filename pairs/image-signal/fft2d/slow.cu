#define SIDE 256

__device__ int reversed(int i)
{
    int result = 0;
    for (int bit = 0; bit < 8; bit++)
        if (i & (1 << bit))
            result |= 128 >> bit;
    return result;
}

extern "C" __global__ void reorder(const float2 *in, float2 *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int x = i % SIDE, y = i / SIDE % SIDE, image = i / (SIDE * SIDE);
    out[i] = in[image * SIDE * SIDE + reversed(y) * SIDE + reversed(x)];
}

extern "C" __global__ void butterflies(float2 *data, int half, int stride, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int line = stride == 1 ? i / (SIDE / 2) : i / (SIDE * SIDE / 2) * SIDE + i % SIDE;
    int k = stride == 1 ? i % (SIDE / 2) : i / SIDE % (SIDE / 2);
    int base = stride == 1 ? line * SIDE : line / SIDE * SIDE * SIDE + line % SIDE;
    int low = base + (k / half * 2 * half + k % half) * stride, high = low + half * stride;
    float angle = -3.14159265358979f * (k % half) / half;
    float c = cosf(angle), s = sinf(angle);
    float2 a = data[low], b = data[high];
    float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
    data[low] = make_float2(a.x + turned.x, a.y + turned.y);
    data[high] = make_float2(a.x - turned.x, a.y - turned.y);
}
