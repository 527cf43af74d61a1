// How compiled code runs the kernel of an op that has no code of its own.
#pragma once

#include <cstdint>

namespace mt {

// Runs what `words` describe on the memory at `pointers`: the operands that are there, then, for an op that draws
// random numbers, two words with the seed and the offset, then the results. All arrays are row-major. Installed by
// trace/; abi.h has the layout of the words.
extern void (*kernel_call_hook)(const int64_t* words, void** pointers);

}  // namespace mt
