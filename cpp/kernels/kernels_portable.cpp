#include "kernels/level.h"

namespace pcpq {

const Kernels& portable_kernels() {
    static constexpr Kernels table = kernels_named("portable");
    return table;
}

}  // namespace pcpq
