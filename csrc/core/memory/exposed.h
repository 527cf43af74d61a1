// Memory whose address was given away: whoever has it may read and write there as long as the memory lives.
#pragma once

#include "core/tensor.h"

namespace mt {

// Among `Storage::exports`, which counts those that end.
inline constexpr uint32_t kExposed = uint32_t{1} << 31;

inline void expose(Storage& storage) {
    // Recorded reads must not see what is written there.
    if (storage.readers) before_write_callback(&storage);
    storage.exports |= kExposed;
}

}  // namespace mt
