extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
}
