#ifndef HARNESS_H
#define HARNESS_H
#include <stdio.h>
struct Timer { double start_s; };
void start(struct Timer *timer);
void stop(struct Timer *timer);
#endif
