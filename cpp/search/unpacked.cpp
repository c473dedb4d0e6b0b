#include "search/unpacked.h"

#include <algorithm>
#include <cstdint>

namespace pcpq {

void unpacked_products(const Codes& codes, int64_t list, const float* query, float* products) {
    const int64_t k = codes.n_codewords, size = codes.section_size;
    const float* codewords = of_list(codes, codes.codewords, list, codes.sections * size * k);
    for (int64_t j = 0; j < codes.sections; j++, codewords += size * k, products += k)
        for (int64_t t = 0; t < size; t++)
            for (int64_t i = 0; i < k; i++) {
                const float product = codewords[t * k + i] * query[j * size + t];
                products[i] = t == 0 ? product : products[i] + product;
            }
}

float unpacked_score(const Codes& codes, int64_t list, const float* products, int64_t row) {
    const int64_t m = codes.sections, k = codes.n_codewords, s = codes.n_scales;
    const uint8_t* bytes = codes.blocks + row * codes.block_bytes;
    const bool wide = codes.block_bytes == 2 * m;
    const float* scales = of_list(codes, codes.scales, list, m * s);
    float sums[4] = {};
    for (int64_t j = 0; j < m; j++) {
        // A file may be forged: an index that is too large must not lead outside the table.
        const int64_t code = std::min<int64_t>(wide ? bytes[2 * j] | bytes[2 * j + 1] << 8 : bytes[j], k - 1);
        float value = products[j * k + code];
        if (codes.unpacked_scales)
            value *= scales[j * s + std::min<int64_t>(codes.unpacked_scales[row * m + j], s - 1)];
        if (codes.unpacked_alphas) value *= codes.unpacked_alphas[row * m + j];
        sums[j % 4] += value;
    }
    const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return codes.unpacked_factors ? sum * codes.unpacked_factors[row] : sum;
}

}  // namespace pcpq
