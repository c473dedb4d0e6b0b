#define PCPQ_SIMD_AVX2
#define PCPQ_SIMD_AVX512
#include "kernels/level.h"

namespace pcpq {

const Kernels& avx512_kernels() {
    static constexpr Kernels table = kernels_named("avx512");
    return table;
}

}  // namespace pcpq
