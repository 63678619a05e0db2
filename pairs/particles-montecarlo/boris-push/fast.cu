extern "C" __global__ void __launch_bounds__(256)
    push(float *__restrict__ particles, int n, float ex, float ey, float ez, float bx, float by, float bz, float dt)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const size_t plane = n;
    float *own = particles + i;
    const float x = own[0], y = own[plane], z = own[2 * plane];
    const float vx = own[3 * plane], vy = own[4 * plane], vz = own[5 * plane];
    const float h = 0.5f * dt * own[6 * plane];
    const float tx = h * bx, ty = h * by, tz = h * bz;
    const float scale = 2.0f / (1.0f + tx * tx + ty * ty + tz * tz);
    const float ux = vx + h * ex, uy = vy + h * ey, uz = vz + h * ez;
    const float wx = ux + uy * tz - uz * ty;
    const float wy = uy + uz * tx - ux * tz;
    const float wz = uz + ux * ty - uy * tx;
    const float new_vx = ux + scale * (wy * tz - wz * ty) + h * ex;
    const float new_vy = uy + scale * (wz * tx - wx * tz) + h * ey;
    const float new_vz = uz + scale * (wx * ty - wy * tx) + h * ez;
    own[0] = x + dt * new_vx;
    own[plane] = y + dt * new_vy;
    own[2 * plane] = z + dt * new_vz;
    own[3 * plane] = new_vx;
    own[4 * plane] = new_vy;
    own[5 * plane] = new_vz;
    own[7 * plane] = 0.5f * (new_vx * new_vx + new_vy * new_vy + new_vz * new_vz);
}
