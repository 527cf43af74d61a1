// Errors of what compiled code calls. Its frames can't be unwound, so an exception waits on the thread until the code
// has returned.
#pragma once

#include <exception>
#include <utility>

namespace mt {

inline thread_local std::exception_ptr t_runtime_error;

// Calls body unless an error is kept already: what compiled code asks for behind it is not needed, and works on values
// that may not be there. Keeps what it throws.
template <class F>
void keeping_errors(F&& body) noexcept {
    if (__builtin_expect(t_runtime_error != nullptr, 0)) return;
    try {
        body();
    } catch (...) { t_runtime_error = std::current_exception(); }
}

inline void forget_runtime_error() noexcept {
    if (__builtin_expect(t_runtime_error != nullptr, 0)) t_runtime_error = nullptr;
}

inline void rethrow_runtime_error() {
    if (__builtin_expect(t_runtime_error != nullptr, 0))
        std::rethrow_exception(std::exchange(t_runtime_error, nullptr));
}

}  // namespace mt
