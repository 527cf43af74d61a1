// How a parallel loop's share of one thread is cut into pieces.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace mt {

// A share of so many grains and more is run in pieces: between them it can be interrupted, and threads that are done
// take pieces of the others' shares.
inline constexpr int64_t kLongShare = 8;
inline constexpr int64_t kPieces = 16;
// A grain is some microseconds of work: 64 of them cost much more than to ask for signals.
inline constexpr int64_t kPieceGrains = 64;

/// One thread's share of a loop, taken piece by piece. The last pieces are small: then all threads end at about the
/// same time, and none that has nothing left to do waits long enough to fall asleep.
class alignas(64) Chunk {
  public:
    void set(int64_t from, int64_t to, int64_t grain, bool backwards) {
        start_ = from;
        end_ = to;
        grain_ = grain;
        backwards_ = backwards;
        grains_ = (to - from - 1) / grain + 1;
        if (grains_ < kLongShare) {
            large_ = grains_;
            pieces_ = larges_ = small_ = 1;
        } else {
            large_ = std::min((grains_ - 1) / kPieces + 1, kPieceGrains);
            larges_ = grains_ / large_ - 2;
            small_ = std::max<int64_t>(1, large_ / 8);
            pieces_ = larges_ + (grains_ - larges_ * large_ - 1) / small_ + 1;
        }
        taken_.store(0, std::memory_order_relaxed);
    }

    /// Takes a piece; false if none is left.
    bool take(int64_t& begin, int64_t& end) {
        // Looked at first: what is done is not written to again by every thread that looks for work.
        if (taken_.load(std::memory_order_relaxed) >= pieces_) return false;
        const int64_t k = taken_.fetch_add(1, std::memory_order_relaxed);
        if (k >= pieces_) return false;
        const int64_t first = backwards_ ? grains_ - before(k + 1) : before(k);
        const int64_t last = backwards_ ? grains_ - before(k) : before(k + 1);
        begin = start_ + first * grain_;
        end = std::min(start_ + last * grain_, end_);
        return true;
    }

  private:
    /// The grains of the first k pieces.
    int64_t before(int64_t k) const {
        return std::min(k <= larges_ ? k * large_ : larges_ * large_ + (k - larges_) * small_, grains_);
    }

    std::atomic<int64_t> taken_{0};
    int64_t pieces_ = 0;
    int64_t start_ = 0, end_ = 0, grain_ = 1, grains_ = 0;
    int64_t large_ = 1, larges_ = 0, small_ = 1;
    bool backwards_ = false;
};

}  // namespace mt
