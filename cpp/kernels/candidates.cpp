#include "kernels/candidates.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace pcpq {

void Candidates::compact() {
    if (count <= wanted) return;
    const Cut cut = kernels().search.cut_keys(scores, count, wanted);
    int32_t last_row = INT32_MIN;
    if (cut.at_value > 0) {
        std::vector<int32_t> ties;
        for (int64_t i = 0; i < count; i++)
            if (scores[i] == cut.value) ties.push_back(rows[i]);
        std::nth_element(ties.begin(), ties.begin() + (cut.at_value - 1), ties.end());
        last_row = ties[cut.at_value - 1];
    }
    count = kernels().search.keep_pairs(scores, rows, count, cut.value, last_row);
    threshold = cut.at_value > 0 ? cut.value : cut.value + 1;
}

}  // namespace pcpq
