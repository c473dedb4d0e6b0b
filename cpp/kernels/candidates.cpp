#include "kernels/candidates.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace pcpq {

void Candidates::compact() {
    if (count <= wanted) return;
    const Cut cut = kernels().search.cut_keys(scores, count, wanted);
    std::vector<int32_t> ties;
    int32_t last_row = INT32_MIN;
    if (cut.at_value > 0) {
        for (int64_t i = 0; i < count; i++)
            if (scores[i] == cut.value) ties.push_back(rows[i]);
        std::nth_element(ties.begin(), ties.begin() + (cut.at_value - 1), ties.end(),
                         [this](int32_t a, int32_t b) { return std::pair(row_of(a), a) < std::pair(row_of(b), b); });
        ties.resize(cut.at_value);
        if (!rows_of_copies) last_row = ties.back();
    }
    count = kernels().search.keep_pairs(scores, rows, count, cut.value, last_row);
    if (rows_of_copies) {  // no number is the last of these: they are added after the others
        std::fill_n(scores + count, ties.size(), cut.value);
        count = std::copy(ties.begin(), ties.end(), rows + count) - rows;
    }
    threshold = cut.at_value > 0 ? cut.value : cut.value + 1;
}

}  // namespace pcpq
