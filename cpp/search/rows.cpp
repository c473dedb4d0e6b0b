#include "search/rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace pcpq {

double length_of(const float* x, int64_t n) {
    double sums[4] = {};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int t = 0; t < 4; t++) sums[t] += double(x[i + t]) * x[i + t];
    for (; i < n; i++) sums[0] += double(x[i]) * x[i];
    return std::sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

std::pair<double, double> length_range(const float* rows, int64_t n, int64_t dimensions, float* units) {
    double least = std::numeric_limits<double>::infinity(), most = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const float* row = rows + i * dimensions;
        const double length = length_of(row, dimensions);
        if (std::isnan(length)) return {length, length};
        least = std::min(least, length);
        most = std::max(most, length);
        const float divisor = length > 0.0 ? static_cast<float>(length) : 1.0f;
        if (units)
            for (int64_t t = 0; t < dimensions; t++) units[i * dimensions + t] = row[t] / divisor;
    }
    return {least, most};
}

bool permute_rows(uint8_t* rows, int64_t n, int64_t bytes, const int64_t* order) {
    std::vector<bool> waiting(n, false);
    for (int64_t i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= n || waiting[order[i]]) return false;
        waiting[order[i]] = true;
    }
    std::vector<uint8_t> first(bytes);
    for (int64_t i = 0; i < n; i++) {
        if (!waiting[i]) continue;
        // Around one cycle: each row moves to its place, the first waits aside.
        std::copy_n(rows + i * bytes, bytes, first.data());
        int64_t at = i;
        for (; order[at] != i; at = order[at]) {
            waiting[at] = false;
            std::copy_n(rows + order[at] * bytes, bytes, rows + at * bytes);
        }
        waiting[at] = false;
        std::copy_n(first.data(), bytes, rows + at * bytes);
    }
    return true;
}

bool mask_rows(const RowMask& job) {
    std::vector<uint8_t> in_order;
    const uint8_t* chosen = reinterpret_cast<const uint8_t*>(job.chosen);
    if (job.order) {
        in_order.resize(job.n);
        for (int64_t i = 0; i < job.n; i++) {
            if (job.order[i] < 0 || job.order[i] >= job.n) return false;
            in_order[job.order[i]] = chosen[i];
        }
        chosen = in_order.data();
    }
    std::fill_n(job.mask, job.n_blocks, 0u);
    for (int64_t list = 0; list < job.n_lists; list++) {
        const int64_t first = job.starts[list], count = job.starts[list + 1] - first, place = job.places[list];
        if (first < 0 || count < 0 || first + count > job.n || place < 0 || place + count > job.n_blocks * 32)
            return false;
        for (int64_t i = 0; i < count;) {
            const int64_t bit = (place + i) % 32, end = std::min(count, i + 32 - bit);
            uint32_t word = 0;
            for (int64_t j = i; j < end; j++) word |= static_cast<uint32_t>(chosen[first + j] != 0) << (bit + j - i);
            job.mask[(place + i) / 32] |= word;
            i = end;
        }
    }
    return true;
}

}  // namespace pcpq
