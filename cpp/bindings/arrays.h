// What every binding uses: arrays as they come from Python, and the check that turns a wrong shape into a ValueError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

namespace nb = nanobind;

namespace pcpq {

template <class T, int rank>
using Array = nb::ndarray<T, nb::numpy, nb::ndim<rank>, nb::c_contig, nb::device::cpu>;
template <class T, int rank>
using Maybe = std::optional<Array<T, rank>>;

inline void require(bool fits, const char* what) {
    if (!fits) throw nb::value_error(what);
}

template <class Optional>
auto data_or_null(const Optional& array) -> decltype(array->data()) {
    return array ? array->data() : nullptr;
}

void bind_checksum(nb::module_& m);
void bind_search(nb::module_& m);

}  // namespace pcpq
