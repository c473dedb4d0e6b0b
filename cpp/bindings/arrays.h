// What every binding uses: arrays as they come from Python, and the check that turns a wrong shape into a ValueError.
// Bindings check shapes, release the GIL and call one function: they have no logic and no state.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace nb = nanobind;

namespace pcpq {

template <class T, int rank>
using Array = nb::ndarray<T, nb::numpy, nb::ndim<rank>, nb::c_contig, nb::device::cpu>;
template <class T, int rank>
using Maybe = std::optional<Array<T, rank>>;

// A contiguous array of one axis by the buffer protocol, which takes a third of the time of an Array: a single query
// takes a few microseconds in all.
template <class T>
class Line {
public:
    Line() = default;
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    ~Line() {
        if (buffer_.obj) PyBuffer_Release(&buffer_);
    }

    // Whether the object is such an array.
    bool take(PyObject* object) noexcept {
        constexpr int kWritable = std::is_const_v<T> ? 0 : PyBUF_WRITABLE;
        if (PyObject_GetBuffer(object, &buffer_, PyBUF_ND | PyBUF_FORMAT | kWritable) != 0) {
            PyErr_Clear();
            return false;
        }
        if (reinterpret_cast<uintptr_t>(buffer_.buf) % alignof(T) != 0) return false;
        const char kind = buffer_.format ? buffer_.format[0] : '\0';
        const bool same_kind = std::is_floating_point_v<T> ? kind == 'f' : kind == 'l' || kind == 'q';
        return buffer_.ndim == 1 && same_kind && buffer_.format[1] == '\0' && buffer_.itemsize == sizeof(T);
    }

    size_t size() const { return static_cast<size_t>(buffer_.shape[0]); }
    T* data() const { return static_cast<T*>(buffer_.buf); }

private:
    static_assert(std::is_same_v<std::remove_const_t<T>, float> || std::is_same_v<T, int64_t>);
    Py_buffer buffer_{};
};

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

namespace nanobind::detail {

template <class T>
struct type_caster<pcpq::Line<T>> {
    NB_TYPE_CASTER(pcpq::Line<T>, (type_caster<pcpq::Array<T, 1>>::Name))

    bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.take(source.ptr()); }
};

}  // namespace nanobind::detail
