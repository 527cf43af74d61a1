// The scratch memory of launches on the CPU: each thread keeps what its largest one needed.
#pragma once

#include <cstddef>

namespace mt::trace {

// At least so many bytes, aligned to 64; valid until this thread's next call, and the contents are not kept.
void* launch_scratch(size_t bytes);

// The most that a launch of this process has asked for.
size_t largest_launch_scratch() noexcept;

}  // namespace mt::trace
