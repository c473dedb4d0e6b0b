// The SIMD level that a file is compiled for, and what is written once over the operations of any level.
// kernels_avx2.cpp, kernels_avx512.cpp and kernels_neon.cpp say which level they want; everywhere else it is the
// portable one.
#pragma once

#include <cstdint>

#if defined(PCPQ_SIMD_AVX2)
#include "simd/avx2.h"
#if defined(PCPQ_SIMD_AVX512)
#include "simd/avx512.h"
#endif
#elif defined(PCPQ_SIMD_NEON)
#include "simd/neon.h"
#else
#include "simd/portable.h"
#endif

namespace {

inline float add(float a, float b) {
    return a + b;
}
inline float smaller(float a, float b) {
    return a < b ? a : b;
}
inline float larger(float a, float b) {
    return a > b ? a : b;
}

#if !defined(PCPQ_SIMD_AVX512)

// The widest floats of the level.
using WideFloats = Floats;
constexpr int kWideLanes = kLanes;
inline WideFloats load_wide_floats(const float* p) {
    return load(p);
}
inline WideFloats broadcast_wide_floats(float x) {
    return broadcast(x);
}
inline void store_sixteen_bytes(uint8_t* p, const WideFloats* a) {
    store_bytes(p, a[0], a[1]);
}

#endif

inline float sum_of_lanes(Floats a) {
    return fold_lanes(a, [](auto x, auto y) { return add(x, y); });
}
inline float least_lane(Floats a) {
    return fold_lanes(a, [](auto x, auto y) { return smaller(x, y); });
}
inline float greatest_lane(Floats a) {
    return fold_lanes(a, [](auto x, auto y) { return larger(x, y); });
}

#if defined(PCPQ_SIMD_AVX512)

inline float least_lane(WideFloats a) {
    return least_lane(fold_halves(a, [](Floats x, Floats y) { return smaller(x, y); }));
}
inline float greatest_lane(WideFloats a) {
    return greatest_lane(fold_halves(a, [](Floats x, Floats y) { return larger(x, y); }));
}

#endif

// Eight float16, without the instructions for it: exact, and the same on every processor. Their exponents and fractions
// are moved to where float32 has them, and the difference of the exponents' biases is made up for.
inline Floats load(const uint16_t* halves) {
    const Ints moved = times_8192(load_ints(reinterpret_cast<const int16_t*>(halves)));
    return as_floats(moved & broadcast_int(static_cast<int32_t>(0x8fffe000))) * broadcast(0x1p112f);
}

// The same, but faster and other values for infinity and NaN: for bounds, which these make useless but not wrong.
inline Floats load_finite(const uint16_t* halves) {
#if defined(PCPQ_SIMD_AVX2)
    return convert_halves(halves);
#else
    return load(halves);
#endif
}
inline Floats load_finite(const float* p) {
    return load(p);
}

// How many of the ascending bounds lie below x, in every lane.
inline Ints count_below(const float* bounds, int count, Floats x) {
    Ints below = broadcast_int(0);
    if (count <= 16) {
        for (int i = 0; i < count; i++) below = below - less(broadcast(bounds[i]), x);
        return below;
    }
    // Binary search without a branch: `below` bounds are known to lie below x.
    for (int length = count; length > 0;) {
        const int half = (length + 1) / 2;
        const Ints over = less(gather(bounds, below + broadcast_int(half - 1)), x);
        below = below + (over & broadcast_int(half));
        length -= half;
    }
    return below;
}

}  // namespace
