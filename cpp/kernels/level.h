// All kernels of a SIMD level, and the table that offers them.
#pragma once

#include "kernels/encode.h"
#include "kernels/kernels.h"
#include "kernels/lookup_tables.h"
#include "kernels/near_lists.h"
#include "kernels/project.h"
#include "kernels/rank_lists.h"
#include "kernels/rerank.h"
#include "kernels/scan.h"
#include "kernels/seeding.h"
#include "kernels/selection.h"
#include "kernels/threshold.h"

namespace pcpq {
namespace {

constexpr Kernels kernels_named(const char* name) {
    return {.name = name,
            .encode = encode,
            .lower_distances = lower_distances,
            .keep_near = keep_near,
            .squared_distance = squared_distance,
            .search = {.query_to_shorts = query_to_shorts,
                       .project = project,
                       .query_to_bytes = query_to_bytes,
                       .inner_product = inner_product,
                       .measure_bases = measure_bases,
                       .score_lists = score_lists<4, 1>,
                       .score_lists_for_four = score_lists_for_four,
                       .rank_lists = rank_lists,
                       .weigh_lists = weigh_lists,
                       .keep_above = keep_above,
                       .cut_keys = cut_keys,
                       .keep_pairs = keep_pairs,
                       .codeword_products = codeword_products,
                       .lookup_unit = lookup_unit,
                       .make_lookup_table = make_lookup_table,
                       .round_bases = round_bases,
                       .guess_threshold = guess_threshold,
                       .scan_list = {scan_list<1>, scan_list<2>, scan_list<3>, scan_list<4>},
                       .rerank = rerank,
                       .bound_scores = bound_scores,
                       .read_rows = read_rows,
                       .keep_reaching = keep_reaching}};
}

}  // namespace
}  // namespace pcpq
