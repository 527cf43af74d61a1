// Kernels that hand out each part of their result while it is in the cache, for the ops that have such a row.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "runtime/kernel_call.h"

namespace mt {

// Stands beside the row of the op's plain kernel. The call that it gets has been inferred.
struct EpilogueKernel {
    std::string_view op;
    void (*run)(Call& call, const Epilogue& epilogue);
    std::vector<DType> dtypes;  // of the results that it makes
};

// Null: the op takes no epilogue where its result is of that dtype.
const EpilogueKernel* find_epilogue_kernel(std::string_view op, DType dtype);
void register_epilogue_kernel(EpilogueKernel kernel);
struct RegisterEpilogueKernel {
    explicit RegisterEpilogueKernel(EpilogueKernel kernel) { register_epilogue_kernel(std::move(kernel)); }
};

}  // namespace mt
