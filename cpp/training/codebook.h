// What the encoder needs of a codebook beyond its codewords: lengths, midpoints, padded rows.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace pcpq {

// m sections of D coordinates, k codewords and s scales per section.
struct CodebookArrays {
    int64_t sections, section_size, n_codewords, n_scales;
    const float* codewords;  // (m, k, D)
    const float* scales;     // (m, s)  ascending in each row, or null
};

class PreparedCodebook {
public:
    explicit PreparedCodebook(const CodebookArrays& arrays)
        : norms_(arrays.sections * arrays.n_codewords), inverse_norms_(arrays.sections * arrays.n_codewords) {
        const auto [sections, section_size, n_codewords, n_scales, codewords, scales] = arrays;
        for (int64_t i = 0; i < sections * n_codewords; i++) {
            float norm = 0.0f;
            for (int64_t t = 0; t < section_size; t++)
                norm += codewords[i * section_size + t] * codewords[i * section_size + t];
            norms_[i] = norm;
            // Also 0 where 1 / norm would overflow: such a codeword is as good as zero.
            inverse_norms_[i] = norm > 1e-37f ? 1.0f / norm : 0.0f;
        }
        const int64_t stride = (n_scales + 7) / 8 * 8;
        scales_.resize(sections * stride);
        bounds_.resize(sections * stride);
        for (int64_t j = 0; scales && j < sections; j++) {
            const float* row = scales + j * n_scales;
            for (int64_t l = 0; l < n_scales; l++) scales_[j * stride + l] = row[l];
            for (int64_t l = 0; l + 1 < n_scales; l++) bounds_[j * stride + l] = 0.5f * (row[l] + row[l + 1]);
        }
        view_ = {.sections = sections,
                 .section_size = section_size,
                 .n_codewords = n_codewords,
                 .n_scales = n_scales,
                 .scale_stride = stride,
                 .codewords = codewords,
                 .norms = norms_.data(),
                 .inverse_norms = inverse_norms_.data(),
                 .scales = scales_.data(),
                 .bounds = bounds_.data()};
    }
    PreparedCodebook(const PreparedCodebook&) = delete;
    PreparedCodebook& operator=(const PreparedCodebook&) = delete;

    const Codebook& view() const { return view_; }

private:
    std::vector<float> norms_, inverse_norms_, scales_, bounds_;
    Codebook view_;
};

}  // namespace pcpq
