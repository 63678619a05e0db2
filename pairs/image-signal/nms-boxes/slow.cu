extern "C" __global__ void suppress(const int *corners, const int *extents, unsigned char *keep, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        keep[i] = 1;
    __syncthreads();
    for (int i = 0; i < n; i++) {
        if (keep[i]) {
            int left = corners[2 * i], top = corners[2 * i + 1];
            int right = left + extents[2 * i], bottom = top + extents[2 * i + 1];
            for (int j = i + 1 + threadIdx.x; j < n; j += blockDim.x) {
                int w = min(right, corners[2 * j] + extents[2 * j]) - max(left, corners[2 * j]);
                int h = min(bottom, corners[2 * j + 1] + extents[2 * j + 1]) - max(top, corners[2 * j + 1]);
                int common = max(w, 0) * max(h, 0);
                int both = extents[2 * i] * extents[2 * i + 1] + extents[2 * j] * extents[2 * j + 1];
                if (3 * common > both)
                    keep[j] = 0;
            }
        }
        __syncthreads();
    }
}
