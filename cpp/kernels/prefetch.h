// What is read soon is asked for now, and comes while there is other work. All of it is always inline: GCC leaves out
// calls of functions that do nothing but prefetch.
#pragma once

#include <cstdint>

namespace pcpq {
namespace {

// Into the second level: the first is full of what is being read, and waits for fewer lines at once.
[[gnu::always_inline]] inline void prefetch_line(const void* line) {
    __builtin_prefetch(line, 0, 2);
}

[[gnu::always_inline]] inline void prefetch_row(const void* row, int64_t bytes) {
    const char* first = static_cast<const char*>(row);
    for (int64_t at = 0; at < bytes; at += 64) prefetch_line(first + at);
    prefetch_line(first + bytes - 1);
}

}  // namespace
}  // namespace pcpq
