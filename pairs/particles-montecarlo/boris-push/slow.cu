struct Particle {
    float x, y, z;
    float vx, vy, vz;
    float charge_to_mass;
    float energy;
};

extern "C" __global__ void push(Particle *particles, int n, float ex, float ey, float ez, float bx, float by, float bz,
                                float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float h = 0.5f * dt * particles[i].charge_to_mass;
    float tx = h * bx, ty = h * by, tz = h * bz;
    float scale = 2.0f / (1.0f + tx * tx + ty * ty + tz * tz);
    float ux = particles[i].vx + h * ex;
    float uy = particles[i].vy + h * ey;
    float uz = particles[i].vz + h * ez;
    float wx = ux + uy * tz - uz * ty;
    float wy = uy + uz * tx - ux * tz;
    float wz = uz + ux * ty - uy * tx;
    particles[i].vx = ux + scale * (wy * tz - wz * ty) + h * ex;
    particles[i].vy = uy + scale * (wz * tx - wx * tz) + h * ey;
    particles[i].vz = uz + scale * (wx * ty - wy * tx) + h * ez;
    particles[i].x += dt * particles[i].vx;
    particles[i].y += dt * particles[i].vy;
    particles[i].z += dt * particles[i].vz;
    particles[i].energy = 0.5f * (particles[i].vx * particles[i].vx + particles[i].vy * particles[i].vy +
                                  particles[i].vz * particles[i].vz);
}
