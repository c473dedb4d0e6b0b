// Which SIMD level runs: the best this processor has, unless PCPQ_SIMD or a test says otherwise.
#include <atomic>
#include <cstring>

#include "kernels/kernels.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#endif

namespace pcpq {
namespace {

#ifdef PCPQ_HAVE_AVX2
bool has_avx2() {
#ifdef _WIN32
    // The builtin needs a library of Clang's. F16C is older than AVX2; Windows does not tell of it.
    return IsProcessorFeaturePresent(PF_AVX2_INSTRUCTIONS_AVAILABLE);
#else
    __builtin_cpu_init();  // this may run before its own constructor
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
}
#endif

#ifdef PCPQ_HAVE_AVX512
bool has_avx512() {
    __builtin_cpu_init();
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2");
}
#endif

const Kernels* find(const char* name) {
    if (std::strcmp(name, "portable") == 0) return &portable_kernels();
#ifdef PCPQ_HAVE_AVX2
    if (std::strcmp(name, "avx2") == 0 && has_avx2()) return &avx2_kernels();
#endif
#ifdef PCPQ_HAVE_AVX512
    if (std::strcmp(name, "avx512") == 0 && has_avx512()) return &avx512_kernels();
#endif
#ifdef PCPQ_HAVE_NEON
    if (std::strcmp(name, "neon") == 0) return &neon_kernels();  // every 64-bit ARM has it
#endif
    return nullptr;
}

const Kernels* best() {
    for (const char* name : kLevelNames)
        if (const Kernels* found = find(name)) return found;
    return nullptr;  // never: portable is always there
}

std::atomic<const Kernels*> selected{best()};

}  // namespace

const Kernels& kernels() {
    return *selected.load(std::memory_order_relaxed);
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
