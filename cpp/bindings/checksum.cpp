// Bindings of checksums.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/checksum.h"
#include "kernels/index_arrays.h"
#include "search/checksum.h"

using namespace nb::literals;

namespace pcpq {

GuardedArrays::GuardedArrays(std::string file, Array<const int64_t, 1> rows, Array<const int64_t, 1> places,
                             std::vector<Array<const uint8_t, 2>> by_block, std::vector<Array<const uint8_t, 2>> by_row,
                             Array<const uint8_t, 2> kept, int64_t rows_per_block, int64_t rows_per_page,
                             Array<const uint32_t, 1> list_checks, Array<const uint32_t, 1> page_checks)
    : rows_(std::move(rows)),
      places_(std::move(places)),
      by_block_(std::move(by_block)),
      by_row_(std::move(by_row)),
      kept_(std::move(kept)),
      list_checks_(std::move(list_checks)),
      page_checks_(std::move(page_checks)),
      guard_(arrays(std::move(file), rows_per_block, rows_per_page)) {}

Guard::Arrays GuardedArrays::arrays(std::string file, int64_t rows_per_block, int64_t rows_per_page) const {
    const auto n_lists = static_cast<int64_t>(rows_.shape(0)) - 1;
    require(n_lists > 0 && places_.shape(0) == rows_.shape(0), "the arrays of lists do not match");
    require(rows_per_block > 0, "rows_per_block is out of range");
    const int64_t n = rows_.data()[n_lists], n_blocks = places_.data()[n_lists] / rows_per_block;
    const auto columns = [](const std::vector<Array<const uint8_t, 2>>& found, int64_t length) {
        std::vector<Column> columns;
        for (const auto& array : found) {
            require(static_cast<int64_t>(array.shape(0)) == length, "a column has the wrong length");
            columns.push_back({.bytes = array.data(), .width = static_cast<int64_t>(array.shape(1))});
        }
        return columns;
    };
    require(rows_per_page > 0 && static_cast<int64_t>(kept_.shape(0)) == n, "kept rows have the wrong shape");
    require(static_cast<int64_t>(list_checks_.shape(0)) == n_lists &&
                static_cast<int64_t>(page_checks_.shape(0)) == (n + rows_per_page - 1) / rows_per_page,
            "checksums have the wrong shape");
    return {.file = std::move(file),
            .n_lists = n_lists,
            .rows = rows_.data(),
            .places = places_.data(),
            .rows_per_block = rows_per_block,
            .by_block = columns(by_block_, n_blocks),
            .by_row = columns(by_row_, n),
            .list_checks = list_checks_.data(),
            .kept = {.bytes = kept_.data(), .width = static_cast<int64_t>(kept_.shape(1))},
            .n_rows = n,
            .rows_per_page = rows_per_page,
            .page_checks = page_checks_.data()};
}

void bind_checksum(nb::module_& m) {
    nb::exception<FormatError>(m, "FormatError", PyExc_ValueError);
    m.def(
        "crc32c",
        [](Array<const uint8_t, 1> bytes, uint32_t before, bool by_tables) {
            nb::gil_scoped_release unlocked;
            const auto count = static_cast<int64_t>(bytes.shape(0));
            return by_tables ? crc32c_by_tables(before, bytes.data(), count) : crc32c(before, bytes.data(), count);
        },
        "bytes"_a.noconvert(), nb::kw_only(), "before"_a = 0, "by_tables"_a = false,
        "CRC-32C of bytes that follow others, whose own is `before`.");
    nb::class_<GuardedArrays>(m, "Guard", "Arrays of a segment with their checksums; every part is verified once.")
        .def(nb::init<std::string, Array<const int64_t, 1>, Array<const int64_t, 1>,
                      std::vector<Array<const uint8_t, 2>>, std::vector<Array<const uint8_t, 2>>,
                      Array<const uint8_t, 2>, int64_t, int64_t, Array<const uint32_t, 1>, Array<const uint32_t, 1>>(),
             nb::kw_only(), "file"_a, "rows"_a, "places"_a, "by_block"_a, "by_row"_a, "kept"_a, "rows_per_block"_a,
             "rows_per_page"_a, "list_checks"_a, "page_checks"_a)
        .def(
            "check_rows",
            [](const GuardedArrays& arrays, Array<const int64_t, 1> rows) {
                nb::gil_scoped_release unlocked;
                arrays.guard().check_rows(rows.data(), static_cast<int64_t>(rows.shape(0)));
            },
            "rows"_a.noconvert(), "Raise FormatError unless rows and their lists are as they were written.")
        .def(
            "check_all",
            [](const GuardedArrays& arrays) {
                nb::gil_scoped_release unlocked;
                arrays.guard().check_all();
            },
            "Raise FormatError unless everything is as it was written.")
        .def(
            "compute",
            [](const GuardedArrays& arrays, Array<uint32_t, 1> out_lists, Array<uint32_t, 1> out_pages) {
                require(out_lists.shape(0) == arrays.n_lists() && out_pages.shape(0) == arrays.n_pages(),
                        "outputs have the wrong shape");
                nb::gil_scoped_release unlocked;
                arrays.guard().compute(out_lists.data(), out_pages.data());
            },
            nb::kw_only(), "out_lists"_a.noconvert(), "out_pages"_a.noconvert(),
            "Write the checksums of lists and of pages of kept vectors.");
}

}  // namespace pcpq
