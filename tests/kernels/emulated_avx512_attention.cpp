// The attention of the AVX-512 level compiled once more, as emulated_avx512.cpp does its products.
#include <immintrin.h>

#include "tests/kernels/emulated_vectors.h"

#define avx512 emulated_avx512
#include "kernels/cpu/avx512_attention.cpp"
#undef avx512
