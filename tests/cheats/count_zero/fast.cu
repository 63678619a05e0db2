extern "C" __global__ void compact(const float *a, float *kept, int *count, int n)
{
}
