// Machine code in memory: a small linker for the relocatable ELF objects that the code generator makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mt {

class ObjectCode {
  public:
    // Maps the object's sections and links them; symbols that it does not define are looked up in `imports`, then in
    // the process. RuntimeError for what this linker has no rule for: another machine, another kind of relocation.
    ObjectCode(std::string_view file, const std::unordered_map<std::string, uint64_t>& imports);
    ~ObjectCode();
    ObjectCode(const ObjectCode&) = delete;
    ObjectCode& operator=(const ObjectCode&) = delete;

    // The address of a symbol that the object defines; 0 if there is none.
    uint64_t address(const std::string& symbol) const;

  private:
    void link(std::string_view file, const std::unordered_map<std::string, uint64_t>& imports);

    std::byte* memory_ = nullptr;
    size_t size_ = 0;
    std::unordered_map<std::string, uint64_t> defined_;
};

}  // namespace mt
