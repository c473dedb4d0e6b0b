// CRC-32C of bytes, and a guard over arrays that came from a file: each part is verified once, before it is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace pcpq {

// The checksum of bytes that follow others, from the checksum of those; 0 of none.
uint32_t crc32c(uint32_t before, const uint8_t* bytes, int64_t count);
uint32_t crc32c_by_tables(uint32_t before, const uint8_t* bytes, int64_t count);  // as on any processor

// A file that does not hold what was written.
struct FormatError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// `width` bytes for every row, or for every block.
struct Column {
    const uint8_t* bytes;
    int64_t width;
};

// Checksums of lists (all columns but kept vectors) and of pages of kept vectors.
class Guard {
public:
    struct Arrays {
        std::string file;
        int64_t n_lists;
        const int64_t *rows, *places;  // (L + 1,)  of lists, as in Lists
        int64_t rows_per_block;
        std::vector<Column> by_block, by_row;  // in the order in which they are checked
        const uint32_t* list_checks;           // (L,)
        Column kept;
        int64_t n_rows, rows_per_page;
        const uint32_t* page_checks;  // (ceil(n / rows_per_page),)
    };

    // Throws std::invalid_argument unless lists follow each other.
    explicit Guard(Arrays arrays);

    // Throw FormatError unless the bytes are as they were written.
    void check_list(int64_t list) const {
        if (!lists_verified_[list].load(std::memory_order_acquire)) verify_list(list);
    }
    void check_kept(int64_t row) const {
        const int64_t page = row / arrays_.rows_per_page;
        if (!pages_verified_[page].load(std::memory_order_acquire)) verify_page(page);
    }
    void check_rows(const int64_t* rows, int64_t count) const;
    void check_all() const;

    // Writes the checksums themselves, (L,) and (ceil(n / rows_per_page),).
    void compute(uint32_t* list_checks, uint32_t* page_checks) const;

private:
    using Flags = std::unique_ptr<std::atomic<bool>[]>;
    Arrays arrays_;
    int64_t n_pages_;
    mutable Flags lists_verified_, pages_verified_;

    uint32_t list_check(int64_t list) const;
    uint32_t page_check(int64_t page) const;
    void verify_list(int64_t list) const;
    void verify_page(int64_t page) const;
};

}  // namespace pcpq
