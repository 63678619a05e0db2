// clang's own header for CUDA includes it; it belongs to cuRAND, which need not be there.
