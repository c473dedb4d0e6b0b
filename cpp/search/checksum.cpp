#include "search/checksum.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/index_arrays.h"

#if defined(__x86_64__) && !defined(_MSC_VER)
#include <nmmintrin.h>
#endif

namespace pcpq {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bits reversed: processors have an instruction for it

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[i][b]: the effect of byte b on the checksum i bytes later.
constexpr Tables make_tables() {
    Tables tables{};
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
        tables[0][b] = crc;
    }
    for (int i = 1; i < 8; i++)
        for (uint32_t b = 0; b < 256; b++) tables[i][b] = tables[i - 1][b] >> 8 ^ tables[0][tables[i - 1][b] & 255];
    return tables;
}

constexpr Tables kTables = make_tables();

// Eight bytes at a time, in any byte order of the processor.
uint32_t by_tables(uint32_t crc, const uint8_t* bytes, int64_t count) {
    for (; count >= 8; bytes += 8, count -= 8) {
        const uint32_t low = crc ^ (bytes[0] | bytes[1] << 8 | bytes[2] << 16 | uint32_t{bytes[3]} << 24);
        crc = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^ kTables[4][low >> 24] ^
              kTables[3][bytes[4]] ^ kTables[2][bytes[5]] ^ kTables[1][bytes[6]] ^ kTables[0][bytes[7]];
    }
    for (; count > 0; bytes++, count--) crc = crc >> 8 ^ kTables[0][(crc ^ *bytes) & 255];
    return crc;
}

#if defined(__x86_64__) && !defined(_MSC_VER)
__attribute__((target("sse4.2,crc32"))) uint32_t by_instruction(uint32_t crc, const uint8_t* bytes, int64_t count) {
    uint64_t wide = crc;
    for (; count >= 8; bytes += 8, count -= 8) {
        uint64_t eight;
        std::memcpy(&eight, bytes, 8);
        wide = _mm_crc32_u64(wide, eight);
    }
    auto narrow = static_cast<uint32_t>(wide);
    for (; count > 0; bytes++, count--) narrow = _mm_crc32_u8(narrow, *bytes);
    return narrow;
}
#endif

void require(bool fits, const char* what) {
    if (!fits) throw std::invalid_argument(what);
}

Guard::Arrays checked(Guard::Arrays arrays) {
    for (const int64_t* starts : {arrays.rows, arrays.places}) {
        require(starts[0] == 0, "lists do not begin at 0");
        for (int64_t i = 0; i < arrays.n_lists; i++) require(starts[i] <= starts[i + 1], "lists overlap");
    }
    for (int64_t i = 0; i < arrays.n_lists; i++)
        require(arrays.rows[i + 1] - arrays.rows[i] <= arrays.places[i + 1] - arrays.places[i], "lists overlap");
    return arrays;
}

}  // namespace

uint32_t crc32c(uint32_t before, const uint8_t* bytes, int64_t count) {
#if defined(__x86_64__) && !defined(_MSC_VER)
    static const bool instruction = __builtin_cpu_supports("sse4.2");
    if (instruction) return ~by_instruction(~before, bytes, count);
#endif
    return ~by_tables(~before, bytes, count);
}

uint32_t crc32c_by_tables(uint32_t before, const uint8_t* bytes, int64_t count) {
    return ~by_tables(~before, bytes, count);
}

Guard::Guard(Arrays arrays)
    : arrays_(checked(std::move(arrays))),
      n_pages_((arrays_.n_rows + arrays_.rows_per_page - 1) / arrays_.rows_per_page),
      lists_verified_(std::make_unique<std::atomic<bool>[]>(arrays_.n_lists)),
      pages_verified_(std::make_unique<std::atomic<bool>[]>(n_pages_)) {}

uint32_t Guard::list_check(int64_t list) const {
    uint32_t crc = 0;
    const auto add = [&](const std::vector<Column>& columns, int64_t first, int64_t last) {
        for (const Column& column : columns)
            crc = crc32c(crc, column.bytes + first * column.width, (last - first) * column.width);
    };
    const int64_t first = arrays_.rows[list], last = arrays_.rows[list + 1], place = arrays_.places[list];
    const int64_t rows = arrays_.rows_per_block;
    add(arrays_.by_block, place / rows, (place + last - first + rows - 1) / rows);
    add(arrays_.by_row, first, last);
    return crc;
}

uint32_t Guard::page_check(int64_t page) const {
    const int64_t first = page * arrays_.rows_per_page, last = std::min(first + arrays_.rows_per_page, arrays_.n_rows);
    return crc32c(0, arrays_.kept.bytes + first * arrays_.kept.width, (last - first) * arrays_.kept.width);
}

void Guard::verify_list(int64_t list) const {
    if (list_check(list) != arrays_.list_checks[list])
        throw FormatError(arrays_.file + ": list " + std::to_string(list) + " does not match its checksum");
    lists_verified_[list].store(true, std::memory_order_release);
}

void Guard::verify_page(int64_t page) const {
    if (page_check(page) != arrays_.page_checks[page])
        throw FormatError(arrays_.file + ": page " + std::to_string(page) +
                          " of kept vectors does not match its checksum");
    pages_verified_[page].store(true, std::memory_order_release);
}

void Guard::check_rows(const int64_t* rows, int64_t count) const {
    const int64_t* end = arrays_.rows + arrays_.n_lists + 1;
    for (int64_t i = 0; i < count; i++) {
        require(rows[i] >= 0 && rows[i] < arrays_.n_rows, "there is no such row");
        check_list(std::upper_bound(arrays_.rows, end, rows[i]) - arrays_.rows - 1);
        check_kept(rows[i]);
    }
}

void Guard::check_all() const {
    for (int64_t list = 0; list < arrays_.n_lists; list++) check_list(list);
    for (int64_t page = 0; page < n_pages_; page++) check_kept(page * arrays_.rows_per_page);
}

void Guard::compute(uint32_t* list_checks, uint32_t* page_checks) const {
    for (int64_t list = 0; list < arrays_.n_lists; list++) list_checks[list] = list_check(list);
    for (int64_t page = 0; page < n_pages_; page++) page_checks[page] = page_check(page);
}

}  // namespace pcpq
