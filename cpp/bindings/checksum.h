// A guard that keeps the Python arrays it verifies alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "search/checksum.h"

namespace pcpq {

class GuardedArrays {
public:
    GuardedArrays(std::string file, Array<const int64_t, 1> rows, Array<const int64_t, 1> places,
                  std::vector<Array<const uint8_t, 2>> by_block, std::vector<Array<const uint8_t, 2>> by_row,
                  Array<const uint8_t, 2> kept, int64_t rows_per_block, int64_t rows_per_page,
                  Array<const uint32_t, 1> list_checks, Array<const uint32_t, 1> page_checks);

    const Guard& guard() const { return guard_; }
    size_t n_lists() const { return list_checks_.shape(0); }
    size_t n_pages() const { return page_checks_.shape(0); }

private:
    Array<const int64_t, 1> rows_, places_;
    std::vector<Array<const uint8_t, 2>> by_block_, by_row_;
    Array<const uint8_t, 2> kept_;
    Array<const uint32_t, 1> list_checks_, page_checks_;
    Guard guard_;

    Guard::Arrays arrays(std::string file, int64_t rows_per_block, int64_t rows_per_page) const;
};

}  // namespace pcpq
