#define SIZE 65536

__device__ int reversed(int i)
{
    int result = 0;
    for (int bit = 0; bit < 16; bit++)
        if (i & (1 << bit))
            result |= 32768 >> bit;
    return result;
}

extern "C" __global__ void reorder(const float2 *in, float2 *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i / SIZE * SIZE + reversed(i % SIZE)];
}

extern "C" __global__ void butterflies(float2 *data, int half, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int low = i / half * 2 * half + i % half, high = low + half;
    float angle = -3.14159265358979f * (i % half) / half;
    float c = cosf(angle), s = sinf(angle);
    float2 a = data[low], b = data[high];
    float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
    data[low] = make_float2(a.x + turned.x, a.y + turned.y);
    data[high] = make_float2(a.x - turned.x, a.y - turned.y);
}
