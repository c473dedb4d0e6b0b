// All loops of a SIMD level, and the table that offers them. A level's file includes its SIMD types, then this.

#include "kernels/half.h"
#include "kernels/kernels.h"

namespace pcpq {
namespace {

inline float larger(float a, float b) {
    return a > b ? a : b;
}

}  // namespace

#include "kernels/best_code.inl"
#include "kernels/coarse.inl"
#include "kernels/encode.inl"
#include "kernels/rescore.inl"
#include "kernels/scan.inl"
#include "kernels/seeding.inl"
#include "kernels/tables.inl"
#include "kernels/threshold.inl"

namespace {

constexpr Kernels kernels_named(const char* name) {
    return {name,
            encode,
            nearer,
            {round_query,
             turn_query,
             round_to_bytes,
             product,
             score_lists<4, 1>,
             score_lists<2, 4>,
             rank_lists,
             keep_above,
             cut_keys,
             keep_pairs,
             multiply_centers,
             table_unit,
             make_table,
             round_bases,
             likely_threshold,
             {scan_any<1>, scan_any<2>, scan_any<3>, scan_any<4>},
             kept_scores}};
}

}  // namespace
}  // namespace pcpq
