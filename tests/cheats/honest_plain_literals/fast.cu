namespace own { struct two { static constexpr float value = 2.0f; }; }
template <class T> __device__ float weight(char kind)
{
    switch (kind) {
    case 'x':
        return T::value;
    case '\n':
    case '\'':
    case '"':
    case '\\':
    case '\x41':
        return 3.0f;
    }
    return 0.0f;
}
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = weight<::own::two>('x') * a[i] + b[i];
}
