extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f, errors = 0.0f;
    for (int k = 0; k < 16; k++) {
        const float a = x[(i + k) % n], b = x[(i + 3 * k) % n], product = __fmul_rn(a, b);
        const float next = __fadd_rn(sum, product), part = __fsub_rn(next, sum);
        errors += __fmaf_rn(a, b, -product);
        errors += __fadd_rn(__fsub_rn(sum, __fsub_rn(next, part)), __fsub_rn(product, part));
        sum = next;
    }
    if (i < n) y[i] = sum + errors;
}
