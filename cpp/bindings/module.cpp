// The module pcpq._core.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <string>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bindings/arrays.h"
#include "kernels/kernels.h"

using namespace nb::literals;

namespace pcpq {
namespace {

std::vector<std::string> available_levels() {
    std::vector<std::string> names;
    for (const char* name : kLevelNames)
        if (level_available(name)) names.push_back(name);
    return names;
}

void set_level(const std::string& name) {
    if (select_kernels(name.c_str())) return;
    std::string there = "auto";
    for (const std::string& level : available_levels()) there += ", " + level;
    throw nb::value_error(("PCPQ_SIMD is '" + name + "'; this processor and build have " + there).c_str());
}

// Training frees its memory, but glibc keeps it for later, and adding would take as much again.
void release_memory() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

}  // namespace
}  // namespace pcpq

NB_MODULE(_core, m) {
    using namespace pcpq;
    // A thread that outlives the interpreter keeps its objects: that is no leak, and no message is wanted.
    nb::set_leak_warnings(false);
    m.doc() = "Stateless kernels over caller-owned, C-contiguous arrays.";
    m.def("simd_level", [] { return std::string(kernels().name); }, "The SIMD level in use.");
    m.def("simd_levels", &available_levels, "The levels this processor and build have, best first.");
    m.def("set_simd_level", &set_level, "name"_a, "Use a level; 'auto' is the best one.");
    m.def("release_memory", &release_memory, "Give freed memory back to the system, where the allocator can do so.");
    bind_training(m);
    bind_scoring(m);
    bind_checksum(m);
    bind_search(m);
    if (const char* wanted = std::getenv("PCPQ_SIMD")) set_level(wanted);
}
