// float16 without the instructions for it: exact, and the same on every processor.
#pragma once

#include <cstdint>
#include <cstring>

namespace pcpq {
namespace {

inline float half_to_float(uint16_t half) {
    const uint32_t bits = static_cast<uint32_t>(half & 0x7fff) << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    value *= 0x1p112f;  // the exponent's bias; exact, subnormal numbers included
    return half & 0x8000 ? -value : value;
}

}  // namespace
}  // namespace pcpq
