// Hashes of words, for tables in memory and for names on disk.
#pragma once

#include <cstdint>

namespace mt {

// The hash of what `hash` is of and one word more: MurmurHash3's 64-bit finaliser, of which one round will do.
inline uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDull;
    return hash ^ hash >> 32;
}

}  // namespace mt
