// Copies past the caches, to memory that this core doesn't read soon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt {

// What was streamed before is seen by whoever sees a later store.
inline void streaming_fence() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

// Copies, and leaves it to the caller to fence. Memory is written by whole cache lines, so no line is fetched, or taken
// from another core's cache, to be overwritten.
inline void streamed_copy(char* to, const char* from, size_t size) {
    size_t at = 0;
#if defined(__SSE2__)
    const size_t before = -reinterpret_cast<uintptr_t>(to) % 64;
    if (before < size) {
        std::memcpy(to, from, before);
        for (at = before; at + 64 <= size; at += 64) {
            const auto* source = reinterpret_cast<const __m128i*>(from + at);
            auto* target = reinterpret_cast<__m128i*>(to + at);
            const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                          d = _mm_loadu_si128(source + 3);
            _mm_stream_si128(target, a);
            _mm_stream_si128(target + 1, b);
            _mm_stream_si128(target + 2, c);
            _mm_stream_si128(target + 3, d);
        }
    }
#endif
    std::memcpy(to + at, from + at, size - at);
}

}  // namespace mt
