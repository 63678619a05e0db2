#define BLOCK 256
#define PER_THREAD 4
