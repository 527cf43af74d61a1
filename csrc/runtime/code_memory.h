// Memory for machine code: written first, executable afterwards, never both.
#pragma once

#include <cstddef>
#include <functional>

namespace mt {

// Whole pages of executable memory. Pieces lie side by side in a few large regions: the kernel joins pages of equal
// protection to one mapping, and a process may only have some ten thousand mappings.
class CodeMemory {
  public:
    // Room for `size` bytes, which `write` fills; `data` is where the code will run. Throws OutOfMemory.
    CodeMemory(size_t size, const std::function<void(std::byte* data)>& write);
    ~CodeMemory();
    CodeMemory(const CodeMemory&) = delete;
    CodeMemory& operator=(const CodeMemory&) = delete;
    std::byte* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace mt
