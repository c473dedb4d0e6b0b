// Sums of lookup-table entries over a block of 64 rows of wide codes, four sections in three lines of 64 bytes. With
// AVX-512 a look-up for all 64 rows is one instruction; other levels take 32 rows after the other.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/prefetch.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// Sums of four look-ups as bytes, added up as shorts. Even rows gather 256 times their odd neighbours on top, which is
// taken off at the end.
template <class Shorts, class Index>
inline void add_four(const uint8_t* table, const Index& a, const Index& b, const Index& c, const Index& d, Shorts& even,
                     Shorts& odd) {
    const auto four = as_shorts(add_bytes(add_bytes(look_up(table, a), look_up(table + 64, b)),
                                          add_bytes(look_up(table + 128, c), look_up(table + 192, d))));
    even = even + four;
    odd = odd + high_bytes(four);
}

#if defined(PCPQ_SIMD_AVX512)

struct WideSums {
    WideShorts even, odd;
};

template <int Q>
inline void sum_wide(const uint8_t* block, const uint8_t* ahead, int64_t quads, Scan* const* scans, WideSums* sums) {
    const uint8_t* tables[Q];
    WideShorts even[Q], odd[Q];
#pragma GCC unroll 4
    for (int q = 0; q < Q; q++) {
        tables[q] = scans[q]->lookup_table;
        even[q] = odd[q] = zero_wide();
    }
    for (int64_t i = 0; i < quads; i++) {
        for (int line = 0; line < 3; line++) prefetch_line(ahead + i * 192 + line * 64);
        const WideBytes a = load_wide(block + i * 192), b = load_wide(block + i * 192 + 64);
        const WideBytes c = load_wide(block + i * 192 + 128), d = fourth_codes(a, b, c);
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++) add_four(tables[q] + i * 256, a, b, c, d, even[q], odd[q]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; q++) sums[q] = {even[q] - times_256(odd[q]), odd[q]};
}

inline uint64_t reaching(const WideSums& sums, uint16_t limit) {
    return bits_reaching(sums.even, sums.odd, limit);
}

// Even rows, then odd ones.
inline void store_sums(const WideSums& sums, uint16_t* out) {
    store_shorts(out, sums.even);
    store_shorts(out + 32, sums.odd);
}

#else

struct WideSums {
    Shorts even[2], odd[2];
};

template <int Q>
inline void sum_wide(const uint8_t* block, const uint8_t* ahead, int64_t quads, Scan* const* scans, WideSums* sums) {
    for (int half = 0; half < 2; half++) {
        Shorts even[Q], odd[Q];
        for (int q = 0; q < Q; q++) even[q] = odd[q] = broadcast_short(0);
        for (int64_t i = 0; i < quads; i++) {
            const uint8_t* line = block + i * 192 + half * 32;
            if (half == 0)
                for (int number = 0; number < 3; number++) prefetch_line(ahead + i * 192 + number * 64);
            const Bytes first = load_bytes(line), second = load_bytes(line + 64), third = load_bytes(line + 128);
            const WideIndex a = wide_index(first), b = wide_index(second), c = wide_index(third);
            const WideIndex d = wide_index(fourth_codes(first, second, third));
#pragma GCC unroll 4
            for (int q = 0; q < Q; q++) add_four(scans[q]->lookup_table + i * 256, a, b, c, d, even[q], odd[q]);
        }
        for (int q = 0; q < Q; q++) {
            sums[q].even[half] = even[q] - times_256(odd[q]);
            sums[q].odd[half] = odd[q];
        }
    }
}

inline uint64_t reaching(const WideSums& sums, uint16_t limit) {
    const Shorts least = broadcast_short(limit);
    uint64_t bits[2];
    for (int half = 0; half < 2; half++)
        bits[half] = bits_of_even_odd(at_least(sums.even[half], least), at_least(sums.odd[half], least));
    return bits[0] | bits[1] << 32;
}

inline void store_sums(const WideSums& sums, uint16_t* out) {
    for (int half = 0; half < 2; half++) {
        store_shorts(out + half * 16, sums.even[half]);
        store_shorts(out + 32 + half * 16, sums.odd[half]);
    }
}

#endif

}  // namespace
}  // namespace pcpq
