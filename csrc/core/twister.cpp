#include "core/twister.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mt {

namespace {

constexpr int64_t kN = Twister::kWords, kM = 397;

// The state as PyTorch's get_state has it.
struct State {
    uint64_t initial_seed;
    int32_t left, seeded;
    uint64_t next;
    uint64_t state[kN];
    double normal_x, normal_y, normal_rho;
    int32_t normal_is_valid;
    int32_t unused;
    float next_float;
    uint8_t next_float_is_valid;
    uint8_t padding[3];
};
static_assert(sizeof(State) == Twister::kStateBytes);

inline uint32_t twisted(uint32_t high, uint32_t low) {
    uint32_t y = (high & 0x80000000) | (low & 0x7fffffff);
    return y >> 1 ^ ((0 - (low & 1)) & 0x9908b0df);
}

}  // namespace

Twister::Twister(uint64_t seed) : seed_(seed) {
    state_[0] = static_cast<uint32_t>(seed);
    for (uint32_t i = 1; i < kN; ++i) state_[i] = 1812433253 * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
}

void Twister::refill() {
    // Each loop reads what it has not written yet, or wrote 227 words ago: both are vectors of any width.
#pragma GCC ivdep
    for (int64_t k = 0; k < kN - kM; ++k) state_[k] = state_[k + kM] ^ twisted(state_[k], state_[k + 1]);
    constexpr int64_t kStep = kN - kM;
    for (int64_t first = kStep; first < kN - 1; first += kStep) {
        const int64_t end = std::min(first + kStep, kN - 1);
#pragma GCC ivdep
        for (int64_t k = first; k < end; ++k) state_[k] = state_[k - kStep] ^ twisted(state_[k], state_[k + 1]);
    }
    state_[kN - 1] = state_[kM - 1] ^ twisted(state_[kN - 1], state_[0]);
    left_ = static_cast<int32_t>(kN) + 1;
    next_ = 0;
}

void Twister::words(uint32_t* out, int64_t n) {
    while (n > 0) {
        if (left_ == 1) refill();
        const int64_t count = std::min<int64_t>(n, left_ - 1);
        const uint32_t* from = state_ + next_;
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) out[i] = temper(from[i]);
        left_ -= static_cast<int32_t>(count);
        next_ += static_cast<uint32_t>(count);
        out += count;
        n -= count;
    }
}

void Twister::skip(uint64_t n) {
    while (n > 0) {
        if (left_ == 1) refill();
        const uint64_t count = std::min<uint64_t>(n, static_cast<uint64_t>(left_ - 1));
        left_ -= static_cast<int32_t>(count);
        next_ += static_cast<uint32_t>(count);
        n -= count;
    }
}

double Twister::normal() {
    if (has_spare_) {
        has_spare_ = false;
        return spare_;
    }
    const double u1 = unit(), u2 = unit();
    const double radius = std::sqrt(-2.0 * std::log1p(-u2)), angle = 6.283185307179586 * u1;
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
}

void Twister::skip_normal(int64_t n) {
    if (n > 0 && has_spare_) {
        has_spare_ = false;
        --n;
    }
    skip(static_cast<uint64_t>(n / 2) * 4);
    if (n % 2) normal();
}

void Twister::save(unsigned char* bytes) const {
    State s{};
    s.initial_seed = seed_;
    s.left = left_;
    s.seeded = 1;
    s.next = next_;
    for (int64_t i = 0; i < kN; ++i) s.state[i] = state_[i];
    s.normal_y = has_spare_ ? spare_ : 0.0;
    s.normal_is_valid = has_spare_;
    s.next_float = has_spare_f32_ ? spare_f32_ : 0.0f;
    s.next_float_is_valid = has_spare_f32_;
    std::memcpy(bytes, &s, sizeof s);
}

bool Twister::load(const unsigned char* bytes) {
    State s;
    std::memcpy(&s, bytes, sizeof s);
    if (s.seeded != 1 || s.left < 1 || s.left > kN || s.next > static_cast<uint64_t>(kN) ||
        s.next + static_cast<uint64_t>(s.left) - 1 > static_cast<uint64_t>(kN))
        return false;
    for (int64_t i = 0; i < kN; ++i) state_[i] = static_cast<uint32_t>(s.state[i]);
    seed_ = s.initial_seed;
    left_ = s.left;
    next_ = static_cast<uint32_t>(s.next);
    has_spare_ = s.normal_is_valid != 0;
    spare_ = s.normal_y;
    has_spare_f32_ = s.next_float_is_valid != 0;
    spare_f32_ = s.next_float;
    return true;
}

}  // namespace mt
