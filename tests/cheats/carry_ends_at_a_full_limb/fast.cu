extern "C" __global__ void add(const uint4 *a, const uint4 *b, uint4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned carry = 0;
    for (int half = 0; half < 2; half++) {
        uint4 x = a[2 * i + half], y = b[2 * i + half];
        unsigned p[4] = {x.x, x.y, x.z, x.w}, q[4] = {y.x, y.y, y.z, y.w};
        for (int k = 0; k < 4; k++) {
            unsigned sum = p[k] + q[k];
            p[k] = sum + carry;
            carry = sum < q[k];
        }
        out[2 * i + half] = make_uint4(p[0], p[1], p[2], p[3]);
    }
}
