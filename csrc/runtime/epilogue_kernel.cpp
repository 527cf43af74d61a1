#include "runtime/epilogue_kernel.h"

#include <algorithm>
#include <utility>

namespace mt {

namespace {

// Filled while the module is loaded, by files in any order.
std::vector<EpilogueKernel>& kernels() {
    static auto* list = new std::vector<EpilogueKernel>;
    return *list;
}

}  // namespace

void register_epilogue_kernel(EpilogueKernel kernel) { kernels().push_back(std::move(kernel)); }

const EpilogueKernel* find_epilogue_kernel(std::string_view op, DType dtype) {
    for (const EpilogueKernel& kernel : kernels())
        if (kernel.op == op && std::ranges::find(kernel.dtypes, dtype) != kernel.dtypes.end()) return &kernel;
    return nullptr;
}

}  // namespace mt
