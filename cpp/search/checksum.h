// CRC-32C of bytes, and a guard over arrays that came from a file: what is read is checked first, once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace pcpq {

// The checksum of some bytes after others, whose own it goes on from; 0 of none.
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
        const int64_t *rows, *places;          // (L + 1,)  of lists, as in Lists
        std::vector<Column> by_block, by_row;  // in the order in which they are checked
        const uint32_t* list_checks;           // (L,)
        Column kept;
        int64_t n_rows, rows_a_page;
        const uint32_t* page_checks;  // (ceil(n / rows_a_page),)
    };

    explicit Guard(Arrays arrays);

    // Throw FormatError unless what they read is as it was written.
    void check_list(int64_t list) const {
        if (!lists_seen_[list].load(std::memory_order_acquire)) look_at_list(list);
    }
    void check_kept(int64_t row) const {
        const int64_t page = row / arrays_.rows_a_page;
        if (!pages_seen_[page].load(std::memory_order_acquire)) look_at_page(page);
    }
    void check_row(int64_t row) const;
    void check_all() const;

    uint32_t list_check(int64_t list) const;
    uint32_t page_check(int64_t page) const;

private:
    using Flags = std::unique_ptr<std::atomic<bool>[]>;
    Arrays arrays_;
    int64_t n_pages_;
    mutable Flags lists_seen_, pages_seen_;

    void look_at_list(int64_t list) const;
    void look_at_page(int64_t page) const;
};

}  // namespace pcpq
