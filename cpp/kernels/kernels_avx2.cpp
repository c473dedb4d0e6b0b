#include "simd/bytes_avx2.h"
#include "simd/simd_avx2.h"
// after the SIMD types that it is written in:
#include "kernels/kernels.inl"

namespace pcpq {

const Kernels& avx2_kernels() {
    static constexpr Kernels table = kernels_named("avx2");
    return table;
}

}  // namespace pcpq
