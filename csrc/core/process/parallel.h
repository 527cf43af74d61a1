// The process's one thread pool: data-parallel loops for eager kernels and for compiled code.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace mt {

/// The number of threads that a parallel loop uses, the caller's own included. Initially MT_NUM_THREADS, otherwise the
/// number of CPUs that this process may run on. Throws std::invalid_argument if MT_NUM_THREADS is not a positive
/// number.
int num_threads();

/// Sets the number of threads; takes effect at the next parallel loop. Throws std::invalid_argument if n < 1.
void set_num_threads(int n);

/// Whether sleeping threads are woken up for every loop (MT_WAKE_THREADS=always), or for a brief one only on demand, as
/// parallel_for says. Throws std::invalid_argument if MT_WAKE_THREADS is anything else than that, "demand" or empty.
bool wakes_threads_always();

/// True on a thread that is executing the body of a parallel loop: a loop started here runs inline.
bool in_parallel_region() noexcept;

/// The body of a parallel loop over the half-open range [begin, end).
using RangeFn = void (*)(void* ctx, int64_t begin, int64_t end);

/// Calls fn on ranges that cover [0, n), and returns when all are done. Each thread has a share, always the same one,
/// so that it finds its data in its caches. A share of many grains is run in pieces, and a thread that is done takes
/// pieces of the others' shares: a core that has less time to give does less. Loops in pieces run from the front and
/// from the back in turns.
///
/// A grain is some microseconds of work. Where it isn't, `grains` says how many of those the loop has; 0 is for as many
/// as there are of `grain`, and a grain of one element may be any work. Threads that sleep are woken up for a loop of a
/// few grains only if there were many such loops of late, since it is done before they are there.
///
/// The ranges begin at multiples of `grain` and depend on n, grain and num_threads() only. The whole range is run on
/// this thread when it makes one share only, when the caller is itself inside a parallel loop, when another thread has
/// the pool, or when others would have to be woken up in vain; so a body's result must not depend on where the range is
/// cut. If bodies throw, the exception of the first range is rethrown here once nothing runs any more.
void parallel_for(int64_t n, int64_t grain, RangeFn fn, void* ctx, int64_t grains = 0);

/// parallel_for with any callable taking (int64_t begin, int64_t end).
template <class F, class = std::enable_if_t<std::is_invocable_v<F&, int64_t, int64_t>>>
void parallel_for(int64_t n, int64_t grain, F&& body, int64_t grains = 0) {
    using Body = std::remove_reference_t<F>;
    parallel_for(
        n, grain, [](void* ctx, int64_t begin, int64_t end) { (*static_cast<Body*>(ctx))(begin, end); },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))), grains);
}

}  // namespace mt
