#include "simd/bytes_neon.h"
#include "simd/simd_neon.h"
// after the SIMD types that it is written in:
#include "kernels/kernels.inl"

namespace pcpq {

const Kernels& neon_kernels() {
    static constexpr Kernels table = kernels_named("neon");
    return table;
}

}  // namespace pcpq
