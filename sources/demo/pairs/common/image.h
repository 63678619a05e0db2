#ifndef IMAGE_H
#define IMAGE_H

/* A pixel position outside the image is moved to its nearest edge. */
#ifdef __CUDACC__
#define IMAGE_HD __host__ __device__
#else
#define IMAGE_HD
#endif

static IMAGE_HD inline int clamp_to(int position, int size) {
  return position < 0 ? 0 : (position >= size ? size - 1 : position);
}

#define RADIUS 2

#endif
