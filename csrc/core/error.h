// Errors carry the Python exception class they become at the boundary.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace mt {

// Whether a message has PyTorch's words alone: where minitensor stands for PyTorch, programs and tests compare them.
inline bool pytorch_words = false;
// What is said beyond PyTorch's words.
inline std::string detail(std::string text) { return pytorch_words ? std::string() : text; }

enum class ErrorKind { Runtime, Type, Value, Index, ZeroDivision, NotImplemented, OutOfMemory, Assertion, Python };

class Error : public std::exception {
  public:
    Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
    ErrorKind kind() const { return kind_; }
    const char* what() const noexcept override { return message_.c_str(); }

  private:
    ErrorKind kind_;
    std::string message_;
};

[[noreturn]] inline void fail(std::string message) { throw Error(ErrorKind::Runtime, std::move(message)); }
[[noreturn]] inline void fail_type(std::string message) { throw Error(ErrorKind::Type, std::move(message)); }
[[noreturn]] inline void fail_value(std::string message) { throw Error(ErrorKind::Value, std::move(message)); }
[[noreturn]] inline void fail_index(std::string message) { throw Error(ErrorKind::Index, std::move(message)); }
// A Python exception is already set; unwind to the binding that returns NULL.
[[noreturn]] inline void fail_python() { throw Error(ErrorKind::Python, ""); }

}  // namespace mt
