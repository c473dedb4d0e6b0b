// Sums of lookup-table entries over a block of 32 rows, for one query or up to four, in 16-bit integers.
//
// Plain codes: a byte holds the codes of two sections; four look-ups are added in 8 bits before they are widened.
// Scaled codes: the product of two 16-entry tables, products of the query and steps of the scale.
#pragma once

#include <cstdint>

#include "kernels/candidates.h"
#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// 32 sums: of even rows and odd rows (plain), or of rows 0-7 and 16-23 and the others (scaled).
struct BlockSums {
    Shorts first, second;
};

template <bool scaled>
inline uint32_t reaching(const BlockSums& sums, Shorts limit) {
    const Shorts a = at_least(sums.first, limit), b = at_least(sums.second, limit);
    return scaled ? bits_of_low_high(a, b) : bits_of_even_odd(a, b);
}

inline void store_sums(const BlockSums& sums, uint16_t* out) {
    store_shorts(out, sums.first);
    store_shorts(out + 16, sums.second);
}
// Where a row's sum is in what store_sums wrote: even rows, then odd ones; or rows 0-7, 16-23, 8-15, 24-31.
template <bool scaled>
inline int place_of(int row) {
    return scaled ? (row & 7) | (row & 8) << 1 | (row & 16) >> 1 : row >> 1 | (row & 1) << 4;
}

// While a list is read, the next one is prefetched, line by line: a single query would wait for every list.
inline void prefetch_line(const uint8_t* line) {
    __builtin_prefetch(line, 0, 2);  // into the second level: the first is full of what is being read
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

// What a row must reach in one list, as the sums are before the list's base is added.
inline Shorts limit_of(const Candidates& best, int32_t base) {
    const int64_t limit = int64_t{best.threshold} - base;
    return broadcast_short(static_cast<uint16_t>(limit < 0 ? 0 : limit > 65535 ? 65535 : limit));
}

// Sums of blocks, each with a bit for every row that reaches its threshold. The sums of every block are written, and
// then kept or not: which blocks have such rows cannot be predicted, and a wrong guess costs the processor more.
struct Hits {
    static constexpr int kRoom = 64;
    int count = 0;
    uint32_t bits[kRoom];
    int32_t block[kRoom];
    int8_t query[kRoom];
    alignas(32) uint16_t sums[kRoom][kBlock];

    // Adds the rows to the candidates of their queries.
    template <bool scaled>
    void flush(Scan* const* scans, const int32_t* bases, int64_t first_row) {
        for (int i = 0; i < count; i++) {
            Candidates& best = scans[query[i]]->best;
            const int32_t base = bases[query[i]];
            const auto row = static_cast<int32_t>(first_row + block[i] * kBlock);
            for (uint32_t left = bits[i]; left; left &= left - 1) {
                const int within = __builtin_ctz(left);
                best.scores[best.count] = base + sums[i][place_of<scaled>(within)];
                best.rows[best.count++] = row + within;
            }
            if (best.count + kBlock > best.capacity) best.compact();
        }
        count = 0;
    }
};

// Where to prefetch: the list that comes next, or before it, so that as many bytes as this one has are there.
inline const uint8_t* bytes_ahead(const ScanInput& input, int64_t n_blocks, int64_t next) {
    const int64_t last = input.lists.n_blocks() - n_blocks, first = input.lists.places[next] / kBlock;
    return input.codes.blocks + (first < last ? first : last) * input.codes.block_bytes;
}

// Adds the rows of one list that reach the thresholds of Q queries to their candidates.
template <bool scaled, int Q>
void scan_coded(const ScanInput& input, int64_t list, int64_t next, Scan* const* scans, const int32_t* bases) {
    const Lists& lists = input.lists;
    const Codes& codes = input.codes;
    const int64_t n_rows = lists.rows[list + 1] - lists.rows[list], place = lists.places[list];
    const int64_t before = place % kBlock, first_block = place / kBlock;  // rows of other lists in the first block
    const int64_t n_blocks = (before + n_rows + kBlock - 1) / kBlock;
    const int64_t first_row = lists.rows[list] - before, after = (before + n_rows) % kBlock;
    const int64_t quads = table_sections(codes) / 4, pairs = (codes.sections + 1) / 2;
    const int64_t block_bytes = codes.block_bytes;
    const uint8_t* steps = reinterpret_cast<const uint8_t*>(of_list(codes, codes.steps, list, pairs * 32));
    const uint8_t* block = codes.blocks + first_block * block_bytes;
    const uint8_t* ahead = bytes_ahead(input, n_blocks, next);
    const uint32_t* allowed = input.allowed ? input.allowed + first_block : nullptr;
    Shorts limits[Q];
    Hits hits;
    for (int q = 0; q < Q; q++) {
        const Candidates& best = scans[q]->best;
        limits[q] = limit_of(best, bases[q]);
        // In a batch, other queries' candidates have pushed the end of these out of the cache.
        __builtin_prefetch(best.scores + best.count, 1);
        __builtin_prefetch(best.rows + best.count, 1);
    }
    for (int64_t b = 0; b < n_blocks; b++, block += block_bytes, ahead += block_bytes) {
        uint32_t present = b + 1 < n_blocks || after == 0 ? ~0u : (1u << after) - 1;
        if (b == 0) present &= ~0u << before;
        if (allowed) present &= allowed[b];
        if (present == 0) continue;
        BlockSums sums[Q];
        if constexpr (scaled)
            sum_scaled<Q>(block, ahead, pairs, steps, scans, sums);
        else
            sum_plain<Q>(block, ahead, quads, scans, sums);
        int count = hits.count;
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++) {
            const uint32_t bits = reaching<scaled>(sums[q], limits[q]) & present;
            store_sums(sums[q], hits.sums[count]);
            hits.bits[count] = bits;
            hits.block[count] = static_cast<int32_t>(b);
            hits.query[count] = q;
            count += bits != 0;
        }
        hits.count = count;
        if (count + Q <= Hits::kRoom) continue;
        hits.flush<scaled>(scans, bases, first_row);
        for (int q = 0; q < Q; q++) limits[q] = limit_of(scans[q]->best, bases[q]);
    }
    hits.flush<scaled>(scans, bases, first_row);
}

template <int Q>
void scan_list(const ScanInput& input, int64_t list, int64_t next, Scan* const* scans, const int32_t* bases) {
    (input.codes.coding == Coding::scaled ? scan_coded<true, Q> : scan_coded<false, Q>)(input, list, next, scans,
                                                                                        bases);
}

}  // namespace
}  // namespace pcpq
