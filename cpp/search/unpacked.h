// Codes with more than 16 codewords or scales per section, or exact scales: read one at a time.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"

namespace pcpq {

// Products of a query's sections with the codewords of a list, (m, n_codewords).
void unpacked_products(const Codes& codes, int64_t list, const float* query, float* products);

// <q, decoded> of a row, by these products.
float unpacked_score(const Codes& codes, int64_t list, const float* products, int64_t row);

}  // namespace pcpq
