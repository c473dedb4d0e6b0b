#include "simd/bytes_portable.h"
#include "simd/simd_portable.h"
// after the SIMD types that it is written in:
#include "kernels/kernels.inl"

namespace pcpq {

const Kernels& portable_kernels() {
    static constexpr Kernels table = kernels_named("portable");
    return table;
}

}  // namespace pcpq
