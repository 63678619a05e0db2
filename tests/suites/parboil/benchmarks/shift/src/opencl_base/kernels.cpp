static const char *source = "__global__ is not a word of OpenCL";
