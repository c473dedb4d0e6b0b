#include "kernels.h"
#include "simd_avx2.h"
// after the SIMD types they are written in:
#include "best_code.inl"
#include "encode.inl"
#include "seeding.inl"

namespace pcpq {

const Kernels& avx2_kernels() {
    static constexpr Kernels table{"avx2", encode, nearer};
    return table;
}

}  // namespace pcpq
