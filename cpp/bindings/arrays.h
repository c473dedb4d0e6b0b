// What every binding uses: arrays as they come from Python, and the check that turns a wrong shape into a ValueError.
// Bindings check shapes, release the GIL and call one function: they have no logic and no state.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstddef>
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

// Whether an array has these lengths.
template <class Array, class... Lengths>
bool has_shape(const Array& array, Lengths... lengths) {
    size_t axis = 0;
    return ((array.shape(axis++) == static_cast<size_t>(lengths)) && ...);
}

// Whether all codes are below a limit. No way out of the loop, so that it is vectorized.
template <class Code>
bool all_below(const Code* codes, size_t count, size_t limit) {
    Code largest = 0;
    for (size_t i = 0; i < count; i++) largest = codes[i] > largest ? codes[i] : largest;
    return count == 0 || largest < limit;
}

void bind_checksum(nb::module_& m);
void bind_scoring(nb::module_& m);
void bind_search(nb::module_& m);
void bind_training(nb::module_& m);

}  // namespace pcpq
