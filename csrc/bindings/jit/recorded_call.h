// Calls of Python functions whose ops are recorded.
#pragma once

#include <cstdint>

namespace mt::py {

// The lengths of its calls are no longer known.
void forget_length(uint64_t owner);

}  // namespace mt::py
