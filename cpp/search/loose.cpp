// Codes with more than 16 centers or scales a section, or exact scales: read one number at a time.
#include <algorithm>

#include "search/search.h"

namespace pcpq {

void multiply_loose(const Packed& packed, int64_t list, const float* query, float* eta) {
    const int64_t k = packed.columns, size = packed.section_size;
    const float* centers = of_list(packed, packed.centers, list, packed.sections * size * k);
    for (int64_t j = 0; j < packed.sections; j++, centers += size * k, eta += k)
        for (int64_t t = 0; t < size; t++)
            for (int64_t i = 0; i < k; i++) {
                const float product = centers[t * k + i] * query[j * size + t];
                eta[i] = t == 0 ? product : eta[i] + product;
            }
}

float loose_product(const Packed& packed, int64_t list, const float* eta, int64_t row) {
    const int64_t m = packed.sections, k = packed.columns, s = packed.scale_columns;
    const uint8_t* bytes = packed.blocks + row * packed.block_bytes;
    const bool wide = packed.block_bytes == 2 * m;
    const float* scales = of_list(packed, packed.scales, list, m * packed.scale_columns);
    float sums[4] = {};
    for (int64_t j = 0; j < m; j++) {
        // Files may lie: a number that is too large must not lead outside the table.
        const int64_t center = std::min<int64_t>(wide ? bytes[2 * j] | bytes[2 * j + 1] << 8 : bytes[j], k - 1);
        float value = eta[j * k + center];
        if (packed.loose_scales) value *= scales[j * s + std::min<int64_t>(packed.loose_scales[row * m + j], s - 1)];
        if (packed.loose_alphas) value *= packed.loose_alphas[row * m + j];
        sums[j % 4] += value;
    }
    const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return packed.loose_factors ? sum * packed.loose_factors[row] : sum;
}

}  // namespace pcpq
