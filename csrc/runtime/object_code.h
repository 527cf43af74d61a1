// Machine code in memory: a small linker for the relocatable ELF objects that the code generator makes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/code_memory.h"

namespace mt {

class ObjectCode {
  public:
    // Puts the object's code and constants side by side and links them; symbols that it does not define are looked up
    // in `imports`, then in the process. NotImplementedError for what this linker has no rule for: another machine,
    // variables, another kind of relocation. RuntimeError for what is damaged, or calls what is not there.
    ObjectCode(std::string_view file, const std::unordered_map<std::string, uint64_t>& imports);

    // The address of a symbol that the object defines; 0 if there is none.
    uint64_t address(const std::string& symbol) const;

  private:
    std::unordered_map<std::string, uint64_t> defined_;
    std::unique_ptr<CodeMemory> memory_;
};

}  // namespace mt
