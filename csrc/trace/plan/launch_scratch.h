// The scratch memory of launches on the CPU. It is the allocator's, so that its statistics have it.
#pragma once

#include <cstddef>

namespace mt::trace {

// At least so many bytes, aligned to 64; valid until this thread's next call, and the contents are not kept. Each
// thread keeps what its largest launch needed.
void* launch_scratch(size_t bytes);

}  // namespace mt::trace
