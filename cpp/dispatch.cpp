// Which SIMD level runs: the best this processor has, unless PCPQ_SIMD or a test says otherwise.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace pcpq {
namespace {

const Kernels* find(const char* name) {
    if (std::strcmp(name, "portable") == 0) return &portable_kernels();
#ifdef PCPQ_HAVE_AVX2
    if (std::strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2")) return &avx2_kernels();
#endif
    return nullptr;
}

const Kernels* best() {
    const Kernels* found = find("avx2");
    return found ? found : &portable_kernels();
}

std::atomic<const Kernels*> selected{nullptr};

}  // namespace

const Kernels& kernels() {
    const Kernels* now = selected.load(std::memory_order_relaxed);
    return now ? *now : *best();
}

bool select_kernels(const char* name) {
    const Kernels* found = std::strcmp(name, "auto") == 0 ? best() : find(name);
    if (found) selected.store(found, std::memory_order_relaxed);
    return found != nullptr;
}

bool level_available(const char* name) {
    return find(name) != nullptr;
}

}  // namespace pcpq
