#ifndef SHAPE_H
#define SHAPE_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct { float x, y; } point;
void run(point *points, int n);
#ifdef __cplusplus
}
#endif
#endif
