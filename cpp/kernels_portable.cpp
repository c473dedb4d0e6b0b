#include "bytes_portable.h"
#include "half.h"
#include "kernels.h"
#include "simd_portable.h"
// after the SIMD types they are written in, in the namespace of what they implement:
namespace pcpq {
#include "best_code.inl"
#include "coarse.inl"
#include "encode.inl"
#include "rescore.inl"
#include "scan.inl"
#include "seeding.inl"
#include "tables.inl"
#include "threshold.inl"

const Kernels& portable_kernels() {
    static constexpr Kernels table{"portable",
                                   encode,
                                   nearer,
                                   {round_query,
                                    turn_query,
                                    score_lists<4, 1>,
                                    score_lists<2, 4>,
                                    rank_lists,
                                    cut_keys,
                                    chosen_keys,
                                    keep_pairs,
                                    multiply_centers,
                                    table_unit,
                                    make_table,
                                    likely_threshold,
                                    {scan_any<1>, scan_any<2>, scan_any<3>, scan_any<4>},
                                    kept_scores}};
    return table;
}

}  // namespace pcpq
