// A query in the forms that reranking reads.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "search/buffer.h"

namespace pcpq {

constexpr float kQueryLength = 32700.0f;  // of a query as 16-bit integers

class RerankForms {
public:
    // `length` is that of the query, which must outlive the forms. A euclidean index reads floats only.
    void set(const float* query, int64_t d, float length, bool euclidean) {
        query_ = {.floats = query, .integers = nullptr, .tail = nullptr, .unit = length / kQueryLength};
        if (!euclidean) make_integers(d, length > 0.0f ? kQueryLength / length : 0.0f);
    }
    const RerankQuery& get() const { return query_; }

private:
    Buffer<int16_t> integers_;
    RerankQuery query_{};

    // For products with kept rows; the last sixteen once more, where they do not overlap with whole sixteens.
    void make_integers(int64_t d, float scale) {
        const int64_t whole = d / 16 * 16, room = (d + 15) / 16 * 16;
        integers_.resize(room + 16);
        kernels().search.query_to_shorts(query_.floats, d, scale, integers_.data());
        for (int64_t i = 0; i < 16; i++) {
            const int64_t at = d - 16 + i;
            integers_.data()[room + i] = at >= whole ? integers_[at] : int16_t{0};
        }
        query_.integers = integers_.data();
        query_.tail = integers_.data() + room;
    }
};

}  // namespace pcpq
