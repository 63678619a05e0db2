extern "C" __global__ void forces(const int *offsets, const float4 *particles, float *out, int side)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= side * side * side)
        return;
    int x = cell % side, y = cell / side % side, z = cell / (side * side);
    for (int i = offsets[cell]; i < offsets[cell + 1]; i++) {
        float4 own = particles[i];
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int dz = -1; dz <= 1; dz++)
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++) {
                    if (x + dx < 0 || x + dx >= side || y + dy < 0 || y + dy >= side || z + dz < 0 || z + dz >= side)
                        continue;
                    int other = ((z + dz) * side + y + dy) * side + x + dx;
                    for (int j = offsets[other]; j < offsets[other + 1]; j++) {
                        float rx = own.x - (particles[j].x + dx);
                        float ry = own.y - (particles[j].y + dy);
                        float rz = own.z - (particles[j].z + dz);
                        float square = rx * rx + ry * ry + rz * rz;
                        if (square < 1.0f) {
                            float f = particles[j].w * (1.0f - square) * (1.0f - square);
                            fx += f * rx;
                            fy += f * ry;
                            fz += f * rz;
                        }
                    }
                }
        out[3 * i] = fx;
        out[3 * i + 1] = fy;
        out[3 * i + 2] = fz;
    }
}
