// A double of the CUDA driver (libcuda): it is there, and the double of the CUDA runtime does not need it.

extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
