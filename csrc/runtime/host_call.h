// How compiled code asks Python for what it has no code for.
#pragma once

#include <cstdint>

namespace mt {

// Computes the instruction that `text` (HLO, `length` bytes) describes from the row-major arrays at `pointers`, the
// operands, and writes the results, which follow. Installed by bindings/; throws what goes wrong.
extern void (*host_call_callback)(const char* text, int64_t length, void** pointers);

}  // namespace mt
