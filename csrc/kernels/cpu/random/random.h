// The inner loops of the random kernels, one table for each instruction set; docs/numerics.md defines the numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mt::cpu {

struct RandomTable {
    // Philox4x32-10: four words for each of `count` blocks from block `first` on.
    void (*philox)(uint64_t seed, uint64_t offset, uint64_t first, int64_t count, uint32_t* words);
    // n elements from their words. `n` is even for normal.
    void (*uniform_f32)(const uint32_t* words, int64_t n, float low, float range, float* out);
    void (*uniform_f64)(const uint32_t* words, int64_t n, double low, double range, double* out);
    void (*normal_f32)(const uint32_t* words, int64_t n, float mean, float std_dev, float* out);
    void (*normal_f64)(const uint32_t* words, int64_t n, double mean, double std_dev, double* out);
    // low + floor(word * range / 2^32), or with 2^64.
    void (*integer_32)(const uint32_t* words, int64_t n, int64_t low, uint64_t range, int64_t* out);
    void (*integer_64)(const uint32_t* words, int64_t n, int64_t low, uint64_t range, int64_t* out);
    // PyTorch's: the lowest 24 bits of words as numbers of [low, low + range), and uniform numbers, in place, made
    // normal in groups of 16.
    void (*torch_uniform)(const uint32_t* words, int64_t n, float low, float range, float* out);
    void (*torch_normal)(float* data, int64_t groups, float mean, float std_dev);
};

namespace baseline {
extern const RandomTable random_table;
}
namespace avx2 {
extern const RandomTable random_table;
}
namespace avx512 {
extern const RandomTable random_table;
}

const RandomTable& select_random_table();
inline const RandomTable& random_loops() {
    static const RandomTable& table = select_random_table();
    return table;
}

}  // namespace mt::cpu
