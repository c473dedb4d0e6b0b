// Sums of lookup-table entries over a block of rows, for one query or up to four, in 16-bit integers.
//
// Plain codes: a byte holds the codes of two sections; four look-ups are added in 8 bits before they are widened.
// Scaled codes: the product of two 16-entry tables, products of the query and steps of the scale.
// Wide codes: scan_wide.h.
#pragma once

#include <cstdint>

#include "kernels/candidates.h"
#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"
#include "kernels/scan_wide.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// 32 sums: of even rows and odd rows (plain), or of rows 0-7 and 16-23 and the others (scaled).
struct BlockSums {
    Shorts first, second;
};

template <Coding coding>
inline uint32_t reaching(const BlockSums& sums, Shorts limit) {
    const Shorts a = at_least(sums.first, limit), b = at_least(sums.second, limit);
    return coding == Coding::scaled ? bits_of_low_high(a, b) : bits_of_even_odd(a, b);
}
template <Coding coding>
inline uint64_t reaching(const WideSums& sums, uint16_t limit) {
    return reaching(sums, limit);
}

inline void store_sums(const BlockSums& sums, uint16_t* out) {
    store_shorts(out, sums.first);
    store_shorts(out + 16, sums.second);
}
// Where a row's sum is in what store_sums wrote: even rows, then odd ones; scaled: rows 0-7, 16-23, 8-15, 24-31.
template <Coding coding>
inline int place_of(int row) {
    if (coding == Coding::scaled) return (row & 7) | (row & 8) << 1 | (row & 16) >> 1;
    return row >> 1 | (row & 1) << (coding == Coding::wide ? 5 : 4);
}

// Loops over queries are unrolled, sums are locals: they must live in registers. `ahead` has as many bytes as the
// block.
template <int Q>
inline void sum_plain(const uint8_t* block, const uint8_t* ahead, int64_t quads, Scan* const* scans, BlockSums* sums) {
    const uint8_t* tables[Q];
    Shorts even[Q], odd[Q];
#pragma GCC unroll 4
    for (int q = 0; q < Q; q++) {
        tables[q] = scans[q]->lookup_table;
        even[q] = odd[q] = broadcast_short(0);
    }
    for (int64_t i = 0; i < quads * 64; i += 64) {
        prefetch_line(ahead + i);
        const Bytes ab = load_bytes(block + i), cd = load_bytes(block + i + 32);
        const Bytes a = low_nibbles(ab), b = high_nibbles(ab), c = low_nibbles(cd), d = high_nibbles(cd);
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++) {
            const uint8_t* table = tables[q] + i;
            // One after the other: two at once would need more registers than there are.
            Bytes four = look_up(table, a);
            keep_in_register(four);
            four = add_bytes(four, look_up(table + 16, b));
            keep_in_register(four);
            four = add_bytes(four, look_up(table + 32, c));
            keep_in_register(four);
            four = add_bytes(four, look_up(table + 48, d));
            // Even rows gather 256 times their odd neighbours on top, taken off at the end.
            even[q] = even[q] + as_shorts(four);
            odd[q] = odd[q] + high_bytes(as_shorts(four));
            keep_in_register(even[q]);
            keep_in_register(odd[q]);
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; q++) sums[q] = {even[q] - times_256(odd[q]), odd[q]};
}

template <int Q>
inline void sum_scaled(const uint8_t* block, const uint8_t* ahead, int64_t pairs, const uint8_t* steps,
                       Scan* const* scans, BlockSums* sums) {
    // Signed sums with 32,768 added, so that they compare as unsigned ones do.
    const uint8_t* tables[Q];
    Shorts first[Q], second[Q];
#pragma GCC unroll 4
    for (int q = 0; q < Q; q++) {
        tables[q] = scans[q]->lookup_table;
        first[q] = second[q] = broadcast_short(kSignedZero);
    }
    for (int64_t i = 0; i < pairs; i++) {
        prefetch_line(ahead + i * 64);
        const Bytes codes = load_bytes(block + i * 64), scales = load_bytes(block + i * 64 + 32);
        const Bytes a = low_nibbles(codes), b = high_nibbles(codes);
        const Bytes step_a = look_up(steps + i * 32, low_nibbles(scales));
        const Bytes step_b = look_up(steps + i * 32 + 16, high_nibbles(scales));
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++) {
            const uint8_t* table = tables[q] + i * 32;
            const Bytes product_a = look_up(table, a), product_b = look_up(table + 16, b);
            first[q] = first[q] + multiply_and_add_low(product_a, step_a, product_b, step_b);
            second[q] = second[q] + multiply_and_add_high(product_a, step_a, product_b, step_b);
            keep_in_register(first[q]);
            keep_in_register(second[q]);
        }
    }
    // The bias, digit by digit: 0 to 60 in steps of 4.
    static constexpr uint8_t digits[16] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
    const Bytes bias = load_bytes(block + pairs * 64);
    const Bytes upper = look_up(digits, high_nibbles(bias)), lower = look_up(digits, low_nibbles(bias));
    // 128 times the sum of all steps, since products are 128 too large; 16 bits wrap, the result does not.
    const uint16_t* shift = reinterpret_cast<const uint16_t*>(block + pairs * 64 + 32);
    const Shorts shift_low = load_shorts(shift), shift_high = load_shorts(shift + 16);
    for (int q = 0; q < Q; q++) {
        const Bytes of_upper = broadcast_byte(scans[q]->bias_products[0]);
        const Bytes of_lower = broadcast_byte(scans[q]->bias_products[1]);
        sums[q].first = first[q] + multiply_and_add_low(of_upper, upper, of_lower, lower) - shift_low;
        sums[q].second = second[q] + multiply_and_add_high(of_upper, upper, of_lower, lower) - shift_high;
    }
}

// What rows of a block are summed up to, compared with, and marked by.
template <Coding coding>
struct BlockOf {
    static constexpr int64_t kRows = 32;
    using Sums = BlockSums;
    using Limit = Shorts;
    using Bits = uint32_t;
    static Limit limit(uint16_t x) { return broadcast_short(x); }
};
template <>
struct BlockOf<Coding::wide> {
    static constexpr int64_t kRows = 64;
    using Sums = WideSums;
    using Limit = uint16_t;
    using Bits = uint64_t;
    static Limit limit(uint16_t x) { return x; }
};

// What a row must reach in one list, as the sums are before the list's base is added.
inline uint16_t limit_of(const Candidates& best, int32_t base) {
    const int64_t limit = int64_t{best.threshold} - base;
    return static_cast<uint16_t>(limit < 0 ? 0 : limit > 65535 ? 65535 : limit);
}

// Sums of blocks, each with a bit for every row that reaches its threshold. The sums of every block are written, and
// then kept or not: which blocks have such rows cannot be predicted, and a wrong guess costs the processor more.
template <Coding coding>
struct Hits {
    static constexpr int64_t kRows = BlockOf<coding>::kRows;
    static constexpr int kRoom = 2048 / kRows;
    int count = 0;
    typename BlockOf<coding>::Bits bits[kRoom];
    int32_t block[kRoom];
    int8_t query[kRoom];
    alignas(64) uint16_t sums[kRoom][kRows];

    // Adds the rows to the candidates of their queries.
    void flush(Scan* const* scans, const int32_t* bases, int64_t first_row) {
        static_assert(kRows <= Candidates::kMostTogether);
        for (int i = 0; i < count; i++) {
            Candidates& best = scans[query[i]]->best;
            const int32_t base = bases[query[i]];
            const auto row = static_cast<int32_t>(first_row + block[i] * kRows);
            for (auto left = bits[i]; left; left &= left - 1) {
                const int within = __builtin_ctzll(left);
                best.scores[best.count] = base + sums[i][place_of<coding>(within)];
                best.rows[best.count++] = row + within;
            }
            if (best.count + kRows > best.capacity) best.compact();
        }
        count = 0;
    }
};

// The bits of a mask for a block.
template <Coding coding>
inline typename BlockOf<coding>::Bits allowed_rows(const uint32_t* mask, int64_t block) {
    if constexpr (coding == Coding::wide)
        return mask[2 * block] | uint64_t{mask[2 * block + 1]} << 32;
    else
        return mask[block];
}

// Adds the rows of one list that reach the thresholds of Q queries to their candidates.
template <Coding coding, int Q>
void scan_coded(const ScanInput& input, int64_t list, const int32_t* ahead, Scan* const* scans, const int32_t* bases) {
    using Block = BlockOf<coding>;
    using Bits = typename Block::Bits;
    constexpr int64_t kRows = Block::kRows;
    const Lists& lists = input.lists;
    const Codes& codes = input.codes;
    const int64_t n_rows = lists.rows[list + 1] - lists.rows[list], place = lists.places[list];
    const int64_t before = place % kRows;  // rows of other lists in the first block
    const auto [first_block, n_blocks] = blocks_of(lists, coding, list);
    const int64_t first_row = lists.rows[list] - before, after = (before + n_rows) % kRows;
    const int64_t quads = table_sections(codes) / 4, pairs = (codes.sections + 1) / 2;
    const int64_t block_bytes = codes.block_bytes;
    const uint8_t* steps = reinterpret_cast<const uint8_t*>(of_list(codes, codes.steps, list, pairs * 32));
    const uint8_t* block = codes.blocks + first_block * block_bytes;
    typename Block::Limit limits[Q];
    Hits<coding> hits;
    for (int q = 0; q < Q; q++) {
        const Candidates& best = scans[q]->best;
        limits[q] = Block::limit(limit_of(best, bases[q]));
        // In a batch, other queries' candidates have pushed the end of these out of the cache.
        __builtin_prefetch(best.scores + best.count, 1);
        __builtin_prefetch(best.rows + best.count, 1);
    }
    for (int64_t b = 0; b < n_blocks; b++, block += block_bytes) {
        Bits present = b + 1 < n_blocks || after == 0 ? ~Bits{0} : (Bits{1} << after) - 1;
        if (b == 0) present &= ~Bits{0} << before;
        if (input.allowed) present &= allowed_rows<coding>(input.allowed, first_block + b);
        if (present == 0) continue;
        const uint8_t* later = codes.blocks + ahead[b] * block_bytes;
        typename Block::Sums sums[Q];
        if constexpr (coding == Coding::scaled)
            sum_scaled<Q>(block, later, pairs, steps, scans, sums);
        else if constexpr (coding == Coding::wide)
            sum_wide<Q>(block, later, quads, scans, sums);
        else
            sum_plain<Q>(block, later, quads, scans, sums);
        int count = hits.count;
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++) {
            const Bits bits = reaching<coding>(sums[q], limits[q]) & present;
            store_sums(sums[q], hits.sums[count]);
            hits.bits[count] = bits;
            hits.block[count] = static_cast<int32_t>(b);
            hits.query[count] = q;
            count += bits != 0;
        }
        hits.count = count;
        if (count + Q <= Hits<coding>::kRoom) continue;
        hits.flush(scans, bases, first_row);
        for (int q = 0; q < Q; q++) limits[q] = Block::limit(limit_of(scans[q]->best, bases[q]));
    }
    hits.flush(scans, bases, first_row);
}

template <int Q>
void scan_list(const ScanInput& input, int64_t list, const int32_t* ahead, Scan* const* scans, const int32_t* bases) {
    switch (input.codes.coding) {
        case Coding::scaled:
            return scan_coded<Coding::scaled, Q>(input, list, ahead, scans, bases);
        case Coding::wide:
            return scan_coded<Coding::wide, Q>(input, list, ahead, scans, bases);
        default:
            return scan_coded<Coding::plain, Q>(input, list, ahead, scans, bases);
    }
}

}  // namespace
}  // namespace pcpq
