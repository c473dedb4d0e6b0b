// The lookup tables of a query: products of its sections with the codewords, as floats and as small integers.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// Row by row, so that a coordinate's sum has the same order at every SIMD level.
inline void rotate_query(const float* matrix, const float* query, int64_t d, float* out) {
    for (int64_t j = 0; j < d; j++) out[j] = 0.0f;
    for (int64_t i = 0; i < d; i++, matrix += d) {
        const Floats x = broadcast(query[i]);
        int64_t j = 0;
        for (; j + kLanes <= d; j += kLanes) store(out + j, load(out + j) + x * load(matrix + j));
        for (; j < d; j++) out[j] += query[i] * matrix[j];
    }
}

// products[j][i] = <q_j, c_ij>, (m, 16).
template <int D>
void sized_products(const Codes& codes, const float* codewords, const float* query, float* products) {
    const int64_t size = D > 0 ? D : codes.section_size;
    for (int64_t j = 0; j < codes.sections; j++, codewords += 16 * size, query += size) {  // (D, 16)
        Floats low = load(codewords) * broadcast(query[0]), high = load(codewords + 8) * broadcast(query[0]);
        for (int64_t t = 1; t < size; t++) {
            low = low + load(codewords + t * 16) * broadcast(query[t]);
            high = high + load(codewords + t * 16 + 8) * broadcast(query[t]);
        }
        store(products + j * 16, low);
        store(products + j * 16 + 8, high);
    }
}

inline void codeword_products(const Codes& codes, int64_t list, const float* query, float* products) {
    const float* codewords = of_list(codes, codes.codewords, list, codes.sections * codes.section_size * 16);
    switch (codes.section_size) {
        case 1:
            return sized_products<1>(codes, codewords, query, products);
        case 2:
            return sized_products<2>(codes, codewords, query, products);
        case 3:
            return sized_products<3>(codes, codewords, query, products);
        case 4:
            return sized_products<4>(codes, codewords, query, products);
        default:
            return sized_products<0>(codes, codewords, query, products);
    }
}

// The bias is two more sections: its byte's low digit and its high one.
inline float bias_step_of(const Codes& codes, float length) {
    return codes.bias_by_length ? codes.bias_step * length : codes.bias_step;
}
inline float bias_low_of(const Codes& codes, float length) {
    return codes.bias_by_length ? codes.bias_low * length : codes.bias_low;
}

inline float usable(float unit) {
    return unit > 0.0f ? unit : 1.0f;  // all products are zero: any unit will do
}

// Plain codes: unsigned bytes, counted from each section's least product. The unit is such that any four neighbours add
// up to at most 254 with rounding, all of them to less than 65,536.
inline float plain_unit(const Codes& codes, const float* products, float step, float largest_base) {
    const int64_t padded = table_sections(codes);
    float four = 0.0f, widest = 0.0f, total = 0.0f;
    for (int64_t j = 0; j < padded; j++) {
        float range = 0.0f;
        if (j < codes.sections) {
            const Floats a = load(products + j * 16), b = load(products + j * 16 + 8);
            range = greatest_lane(larger(a, b)) - least_lane(smaller(a, b));
        } else if (j < codes.sections + 2) {
            range = step * (j == codes.sections ? 15 : 240);
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

inline void plain_table(const Codes& codes, const float* products, float step, Scan& scan, uint8_t* table) {
    const Floats inverse = broadcast(1.0f / scan.unit);
    for (int64_t j = 0; j < codes.sections; j++) {
        const Floats a = load(products + j * 16), b = load(products + j * 16 + 8);
        const float low = least_lane(smaller(a, b));
        store_bytes(table + j * 16, (a - broadcast(low)) * inverse, (b - broadcast(low)) * inverse);
        scan.constant += low;
    }
    for (int64_t j = codes.sections; j < table_sections(codes); j++) {
        const float digit = j == codes.sections ? step : j == codes.sections + 1 ? 16 * step : 0.0f;
        for (int i = 0; i < 16; i++)
            table[j * 16 + i] = static_cast<uint8_t>(__builtin_lrintf(i * digit * (1.0f / scan.unit)));
    }
    scan.zero = 0;
}

// Scaled codes: signed bytes, shifted by 128. A sum is <q, decoded> in units: by Cauchy and Schwarz |q| * reach bounds
// it, plus the bias and half a unit of rounding per section times the largest step.
inline float scaled_unit(const Codes& codes, int64_t list, const float* products, float length, float step,
                         float largest_base) {
    const float* step_units = of_list(codes, codes.step_units, list, codes.sections);
    float largest = 4.0f * step;
    for (int64_t j = 0; j < codes.sections; j++) {
        const Floats sizes = larger(magnitude(load(products + j * 16)), magnitude(load(products + j * 16 + 8)));
        largest = larger(largest, greatest_lane(sizes) * step_units[j]);
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
inline float lookup_unit(const Codes& codes, int64_t list, const float* products, float length, float largest_base) {
    const float step = bias_step_of(codes, length);
    return usable(codes.coding == Coding::scaled ? scaled_unit(codes, list, products, length, step, largest_base)
                                                 : plain_unit(codes, products, step, largest_base));
}

// The lookup table, constant and zero of a scan whose unit is known.
inline void make_lookup_table(const Codes& codes, int64_t list, const float* products, float length, Scan& scan,
                              uint8_t* table) {
    const float step = bias_step_of(codes, length);
    scan.constant = bias_low_of(codes, length);
    if (codes.coding == Coding::scaled)
        scaled_table(codes, list, products, step, scan, table);
    else
        plain_table(codes, products, step, scan, table);
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
