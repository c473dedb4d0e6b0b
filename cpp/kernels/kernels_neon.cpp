#define PCPQ_SIMD_NEON
#include "kernels/level.h"

namespace pcpq {

const Kernels& neon_kernels() {
    static constexpr Kernels table = kernels_named("neon");
    return table;
}

}  // namespace pcpq
