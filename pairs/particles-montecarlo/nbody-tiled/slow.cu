struct Body {
    float x, y, z, mass;
};

extern "C" __global__ void accelerate(const Body *bodies, float *acceleration, int n, float softening)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int j = 0; j < n; j++) {
        float dx = bodies[j].x - bodies[i].x;
        float dy = bodies[j].y - bodies[i].y;
        float dz = bodies[j].z - bodies[i].z;
        float distance2 = dx * dx + dy * dy + dz * dz + softening * softening;
        float pull = bodies[j].mass / powf(distance2, 1.5f);
        ax += pull * dx;
        ay += pull * dy;
        az += pull * dz;
    }
    acceleration[3 * i] = ax;
    acceleration[3 * i + 1] = ay;
    acceleration[3 * i + 2] = az;
}
