#define BLOCK 64
#define PER_THREAD 1
