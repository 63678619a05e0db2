"""Device code on NVIDIA GPUs: NVRTC to a cubin, launches through cuda-core. Importing this loads neither."""
