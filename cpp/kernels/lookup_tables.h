// The lookup tables of a query: products of its sections with the codewords, as floats and as small integers.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// products[j][i] = <q_j, c_ij>, (m, K), and the least and the greatest of each section, found while they are in
// registers.
template <int K, int D>
void sized_products(const Codes& codes, const float* codewords, const float* query, float* products,
                    ProductRange* ranges) {
    constexpr int kVectors = K / kWideLanes;
    const int64_t size = D > 0 ? D : codes.section_size;
    for (int64_t j = 0; j < codes.sections; j++, codewords += K * size, query += size, products += K) {  // (D, K)
        WideFloats sums[kVectors];
        const WideFloats first = broadcast_wide_floats(query[0]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; v++) sums[v] = load_wide_floats(codewords + v * kWideLanes) * first;
        for (int64_t t = 1; t < size; t++) {
            const WideFloats coordinate = broadcast_wide_floats(query[t]);
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; v++)
                sums[v] = sums[v] + load_wide_floats(codewords + t * K + v * kWideLanes) * coordinate;
        }
        WideFloats low = sums[0], high = sums[0];
        store(products, sums[0]);
#pragma GCC unroll 8
        for (int v = 1; v < kVectors; v++) {
            store(products + v * kWideLanes, sums[v]);
            low = smaller(low, sums[v]);
            high = larger(high, sums[v]);
        }
        ranges[j] = {.least = least_lane(low), .greatest = greatest_lane(high)};
    }
}

template <int K>
inline void products_of(const Codes& codes, int64_t list, const float* query, float* products, ProductRange* ranges) {
    const float* codewords = of_list(codes, codes.codewords, list, codes.sections * codes.section_size * K);
    switch (codes.section_size) {
        case 1:
            return sized_products<K, 1>(codes, codewords, query, products, ranges);
        case 2:
            return sized_products<K, 2>(codes, codewords, query, products, ranges);
        case 3:
            return sized_products<K, 3>(codes, codewords, query, products, ranges);
        case 4:
            return sized_products<K, 4>(codes, codewords, query, products, ranges);
        case 6:
            return sized_products<K, 6>(codes, codewords, query, products, ranges);
        default:
            return sized_products<K, 0>(codes, codewords, query, products, ranges);
    }
}

inline void codeword_products(const Codes& codes, int64_t list, const float* query, float* products,
                              ProductRange* ranges) {
    (codes.coding == Coding::wide ? products_of<64> : products_of<16>)(codes, list, query, products, ranges);
}

// The bias is two more sections: its byte's low digit and its high one, to the base of the entries per section.
inline float bias_step_of(const Codes& codes, float length) {
    return codes.bias_by_length ? codes.bias_step * length : codes.bias_step;
}
inline float bias_low_of(const Codes& codes, float length) {
    return codes.bias_by_length ? codes.bias_low * length : codes.bias_low;
}

inline float usable(float unit) {
    return unit > 0.0f ? unit : 1.0f;  // all products are zero: any unit will do
}

// Plain and wide codes: unsigned bytes, counted from each section's least product. The unit is such that any four
// neighbours add up to at most 254 with rounding, all of them to less than 65,536.
template <int K>
inline float plain_unit(const Codes& codes, const ProductRange* ranges, float step, float largest_base) {
    const int64_t padded = table_sections(codes);
    float four = 0.0f, widest = 0.0f, total = 0.0f;
    for (int64_t j = 0; j < padded; j++) {
        float range = 0.0f;
        if (j < codes.sections) {
            range = ranges[j].greatest - ranges[j].least;
        } else if (j < codes.sections + 2) {
            range = step * (j == codes.sections ? K - 1 : 255 / K * K);
        }
        four += range;
        total += range;
        if (j % 4 == 3) {
            widest = larger(widest, four);
            four = 0.0f;
        }
    }
    return larger(larger(widest / 252.0f, total / (65500.0f - 0.5f * padded)), largest_base / 1e9f);
}

template <int K>
inline void plain_table(const Codes& codes, const float* products, const ProductRange* ranges, float step, Scan& scan,
                        uint8_t* table) {
    constexpr int kVectors = 16 / kWideLanes;
    const WideFloats inverse = broadcast_wide_floats(1.0f / scan.unit);
    for (int64_t j = 0; j < codes.sections; j++) {
        const WideFloats low = broadcast_wide_floats(ranges[j].least);
#pragma GCC unroll 4
        for (int64_t i = j * K; i < (j + 1) * K; i += 16) {
            WideFloats entries[kVectors];
            for (int v = 0; v < kVectors; v++)
                entries[v] = (load_wide_floats(products + i + v * kWideLanes) - low) * inverse;
            store_sixteen_bytes(table + i, entries);
        }
        scan.constant += ranges[j].least;
    }
    for (int64_t j = codes.sections; j < table_sections(codes); j++) {
        const bool upper = j == codes.sections + 1;
        const float digit = j == codes.sections ? step : upper ? K * step : 0.0f;
        const int most = upper ? 255 / K : K - 1;  // larger digits are no bytes
        for (int i = 0; i < K; i++)
            table[j * K + i] = i > most ? 0 : static_cast<uint8_t>(__builtin_lrintf(i * digit * (1.0f / scan.unit)));
    }
    scan.zero = 0;
}

// Scaled codes: signed bytes, shifted by 128. A sum is <q, decoded> in units: by Cauchy and Schwarz |q| * reach bounds
// it, plus the bias and half a unit of rounding per section times the largest step.
inline float scaled_unit(const Codes& codes, int64_t list, const ProductRange* ranges, float length, float step,
                         float largest_base) {
    const float* step_units = of_list(codes, codes.step_units, list, codes.sections);
    float largest = 4.0f * step;
    for (int64_t j = 0; j < codes.sections; j++) {
        const float size = larger(__builtin_fabsf(ranges[j].least), __builtin_fabsf(ranges[j].greatest));
        largest = larger(largest, size * step_units[j]);
    }
    const float room = 32700.0f - 0.5f * codes.largest_step * (codes.sections + 2);
    const float by_sum = (length * codes.reach + 255.0f * step) / room;
    return larger(larger(by_sum, largest / 126.0f), largest_base / 1e9f);
}

inline void scaled_table(const Codes& codes, int64_t list, const float* products, float step, Scan& scan,
                         uint8_t* table) {
    const float* step_units = of_list(codes, codes.step_units, list, codes.sections);
    const float inverse = 1.0f / scan.unit;
    const Floats zero = broadcast(128.0f);
    for (int64_t j = 0; j < codes.sections; j++) {
        const Floats factor = broadcast(step_units[j] * inverse);
        store_bytes(table + j * 16, load(products + j * 16) * factor + zero,
                    load(products + j * 16 + 8) * factor + zero);
    }
    if (codes.sections % 2) store_bytes(table + codes.sections * 16, zero, zero);
    const auto digit = [&](float size) { return static_cast<uint8_t>(128 + int64_t{as_key(size * step * inverse)}); };
    scan.bias_products[0] = digit(4.0f);
    scan.bias_products[1] = digit(0.25f);
    scan.zero = kSignedZero;
}

// The least unit of a lookup table: no sum of its entries is too large, and a base is less than 2^30.
inline float lookup_unit(const Codes& codes, int64_t list, const ProductRange* ranges, float length,
                         float largest_base) {
    const float step = bias_step_of(codes, length);
    if (codes.coding == Coding::scaled) return usable(scaled_unit(codes, list, ranges, length, step, largest_base));
    return usable((codes.coding == Coding::wide ? plain_unit<64> : plain_unit<16>)(codes, ranges, step, largest_base));
}

// The lookup table, constant and zero of a scan whose unit is known.
inline void make_lookup_table(const Codes& codes, int64_t list, const float* products, const ProductRange* ranges,
                              float length, Scan& scan, uint8_t* table) {
    const float step = bias_step_of(codes, length);
    scan.constant = bias_low_of(codes, length);
    if (codes.coding == Coding::scaled)
        scaled_table(codes, list, products, step, scan, table);
    else
        (codes.coding == Coding::wide ? plain_table<64> : plain_table<16>)(codes, products, ranges, step, scan, table);
}

// What integer scores of lists start from; both have room for n rounded up to 8.
inline void round_bases(const float* bases, int64_t n, const Scan& scan, int32_t* starts) {
    const Floats inverse = broadcast(1.0f / scan.unit), constant = broadcast(scan.constant);
    // NaN and what is too large come from a forged file: they must not leave the range of integers.
    const Floats least = broadcast(-0x1p30f), most = broadcast(0x1p30f);
    for (int64_t i = 0; i < n; i += kLanes) {
        store(starts + i, to_ints(smaller(larger((load(bases + i) + constant) * inverse, least), most)));
        for (int lane = 0; lane < kLanes; lane++) starts[i + lane] -= scan.zero;
    }
}

}  // namespace
}  // namespace pcpq
