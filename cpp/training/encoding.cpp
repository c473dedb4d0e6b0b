#include "training/encoding.h"

#include <vector>

namespace pcpq {

void encode(EncodeJob job, const CodebookArrays& arrays) {
    const PreparedCodebook codebook(arrays);
    std::vector<float> scratch(encode_scratch_floats(codebook.view(), job.scale));
    job.codebook = codebook.view();
    job.scratch = scratch.data();
    kernels().encode(job);
}

}  // namespace pcpq
