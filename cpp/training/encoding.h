// Codes of least loss for points.
#pragma once

#include "kernels/kernels.h"
#include "training/codebook.h"

namespace pcpq {

// Writes the codes of a job's points; job.codebook and job.scratch are not used.
void encode(EncodeJob job, const CodebookArrays& arrays);

}  // namespace pcpq
