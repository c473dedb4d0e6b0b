#include "kernels.h"
#include "simd_portable.h"
// after the SIMD types they are written in:
#include "best_code.inl"
#include "encode.inl"
#include "seeding.inl"

namespace pcpq {

const Kernels& portable_kernels() {
    static constexpr Kernels table{"portable", encode, nearer};
    return table;
}

}  // namespace pcpq
