// PyTorch's generator of random numbers for the CPU: MT19937 (Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS
// 8, 1998), with the second number of a normal pair kept for the next call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mt {

class Twister {
  public:
    static constexpr int64_t kWords = 624;
    // The size of what save() writes: the state of PyTorch's generators, byte for byte.
    static constexpr size_t kStateBytes = 5056;

    explicit Twister(uint64_t seed);

    uint64_t seed() const { return seed_; }
    uint32_t word() {
        if (left_ == 1) refill();
        --left_;
        return temper(state_[next_++]);
    }
    // The first word is the upper half.
    uint64_t word_64() {
        uint64_t high = word();
        return high << 32 | word();
    }
    // In [0, 1), of 53 bits.
    double unit() { return static_cast<double>(static_cast<int64_t>(word_64() & ((uint64_t{1} << 53) - 1))) * 0x1p-53; }
    // Of the standard normal distribution: Box and Muller's pairs, one number after the other.
    double normal();
    void words(uint32_t* out, int64_t n);
    void skip(uint64_t n);
    // As if n numbers had been taken from normal().
    void skip_normal(int64_t n);

    void save(unsigned char* bytes) const;
    // False, and nothing is changed, if the bytes are no state.
    bool load(const unsigned char* bytes);

  private:
    static uint32_t temper(uint32_t y) {
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c5680;
        y ^= y << 15 & 0xefc60000;
        return y ^ y >> 18;
    }
    void refill();

    uint32_t state_[kWords];
    int32_t left_ = 1;  // one more than there are words before the next refill
    uint32_t next_ = 0;
    uint64_t seed_;
    double spare_ = 0.0;
    bool has_spare_ = false;
    // The same of single precision, which only states from elsewhere have: they are given back as they came.
    bool has_spare_f32_ = false;
    float spare_f32_ = 0.0f;
};

}  // namespace mt
