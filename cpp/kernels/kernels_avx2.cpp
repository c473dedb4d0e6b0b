#define PCPQ_SIMD_AVX2
#include "kernels/level.h"

namespace pcpq {

const Kernels& avx2_kernels() {
    static constexpr Kernels table = kernels_named("avx2");
    return table;
}

}  // namespace pcpq
