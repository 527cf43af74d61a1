// One mapping holds all sections, so that code reaches constants within 2 GB; behind them is a table of addresses, and
// a jump through it for each function from outside. The mapping is writable only while it is linked.
#include "runtime/object_code.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace mt {

#if defined(__x86_64__) && defined(__linux__)

namespace {

constexpr size_t kStub = 16;  // jmp *[rip + 2]; ud2; the address
constexpr size_t kAddressInStub = 8;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Reads of the file, none beyond its end.
class File {
  public:
    explicit File(std::string_view bytes) : bytes_(bytes) {}

    template <class T>
    T at(uint64_t offset) const {
        T value;
        std::memcpy(&value, part(offset, sizeof(T)).data(), sizeof(T));
        return value;
    }
    std::string_view part(uint64_t offset, uint64_t size) const {
        if (offset > bytes_.size() || size > bytes_.size() - offset) fail("object code: it is cut short");
        return bytes_.substr(offset, size);
    }
    std::string name(const Elf64_Shdr& table, uint64_t offset) const {
        std::string_view names = part(table.sh_offset, table.sh_size);
        if (offset >= names.size()) fail("object code: a name lies outside its table");
        names.remove_prefix(offset);
        names = names.substr(0, names.find('\0'));
        if (!std::all_of(names.begin(), names.end(), [](char c) { return c > ' ' && c < 127; }))
            fail("object code: a name is not readable");
        return std::string(names);
    }

  private:
    std::string_view bytes_;
};

int32_t displacement(uint64_t target, uint64_t from) {
    int64_t distance = static_cast<int64_t>(target - from);
    if (distance != static_cast<int32_t>(distance)) fail("object code: a place is out of reach");
    return static_cast<int32_t>(distance);
}

}  // namespace

ObjectCode::ObjectCode(std::string_view file, const std::unordered_map<std::string, uint64_t>& imports) {
    try {
        link(file, imports);
    } catch (...) {
        if (memory_) munmap(memory_, size_);
        throw;
    }
}

void ObjectCode::link(std::string_view bytes, const std::unordered_map<std::string, uint64_t>& imports) {
    File file(bytes);
    auto header = file.at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64 || header.e_type != ET_REL ||
        header.e_shentsize != sizeof(Elf64_Shdr))
        fail("object code: it is not an object for this machine");
    std::vector<Elf64_Shdr> sections;
    for (size_t k = 0; k < header.e_shnum; ++k)
        sections.push_back(file.at<Elf64_Shdr>(header.e_shoff + k * sizeof(Elf64_Shdr)));
    auto section = [&](uint64_t k) -> const Elf64_Shdr& {
        if (k >= sections.size()) fail("object code: there is no such section");
        return sections[k];
    };

    // Where each section will lie, and the symbols.
    std::vector<size_t> places(sections.size(), 0);
    size_t size = 0;
    const Elf64_Shdr* symbols = nullptr;
    for (size_t k = 0; k < sections.size(); ++k) {
        const Elf64_Shdr& s = sections[k];
        if (s.sh_type == SHT_SYMTAB) symbols = &s;
        if (!(s.sh_flags & SHF_ALLOC)) continue;
        if (s.sh_flags & SHF_WRITE) fail("object code: it has data to be written");
        if (s.sh_addralign > 4096 || s.sh_size > (uint64_t{1} << 30)) fail("object code: a section is too large");
        size = round_up(size, std::max<size_t>(s.sh_addralign, 16));
        places[k] = size;
        size += s.sh_size;
    }
    if (!symbols) fail("object code: it has no symbols");
    size_t count = symbols->sh_size / sizeof(Elf64_Sym);
    size_t stubs = round_up(size, kStub);
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = round_up(stubs + count * kStub, page);
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail("object code: no memory for it");
    memory_ = static_cast<std::byte*>(mapped);
    auto base = reinterpret_cast<uint64_t>(memory_);
    for (size_t k = 0; k < sections.size(); ++k) {
        const Elf64_Shdr& s = sections[k];
        if (!(s.sh_flags & SHF_ALLOC) || s.sh_type == SHT_NOBITS) continue;
        std::string_view contents = file.part(s.sh_offset, s.sh_size);
        std::memcpy(memory_ + places[k], contents.data(), contents.size());
    }

    // A function from outside is called through its stub.
    std::vector<uint64_t> addresses(count, 0), outside(count, 0);
    for (size_t k = 1; k < count; ++k) {
        auto symbol = file.at<Elf64_Sym>(symbols->sh_offset + k * sizeof(Elf64_Sym));
        if (symbol.st_shndx == SHN_ABS) continue;  // the name of the source
        if (symbol.st_shndx != SHN_UNDEF) {
            if (!(section(symbol.st_shndx).sh_flags & SHF_ALLOC)) continue;
            addresses[k] = base + places[symbol.st_shndx] + symbol.st_value;
            if (ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL)
                defined_.emplace(file.name(section(symbols->sh_link), symbol.st_name), addresses[k]);
            continue;
        }
        std::string name = file.name(section(symbols->sh_link), symbol.st_name);
        auto found = imports.find(name);
        uint64_t target = found != imports.end() ? found->second
                                                 : reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, name.c_str()));
        if (!target) fail("object code: it calls " + name + ", which is not there");
        std::byte* stub = memory_ + stubs + k * kStub;
        const unsigned char jump[] = {0xFF, 0x25, 2, 0, 0, 0, 0x0F, 0x0B};
        std::memcpy(stub, jump, sizeof jump);
        std::memcpy(stub + kAddressInStub, &target, sizeof target);
        outside[k] = target;
        addresses[k] = reinterpret_cast<uint64_t>(stub);
    }

    for (const Elf64_Shdr& s : sections) {
        if (s.sh_type == SHT_REL) fail("object code: it has relocations of another form");
        if (s.sh_type != SHT_RELA || !(section(s.sh_info).sh_flags & SHF_ALLOC)) continue;
        for (size_t k = 0; k < s.sh_size / sizeof(Elf64_Rela); ++k) {
            auto relocation = file.at<Elf64_Rela>(s.sh_offset + k * sizeof(Elf64_Rela));
            uint64_t number = ELF64_R_SYM(relocation.r_info);
            if (number >= count || relocation.r_offset + 4 > section(s.sh_info).sh_size)
                fail("object code: a relocation lies outside its section");
            std::byte* place = memory_ + places[s.sh_info] + relocation.r_offset;
            bool absolute = ELF64_R_TYPE(relocation.r_info) == R_X86_64_64;
            uint64_t symbol = absolute && outside[number] ? outside[number] : addresses[number];
            uint64_t value = symbol + static_cast<uint64_t>(relocation.r_addend);
            switch (ELF64_R_TYPE(relocation.r_info)) {
                case R_X86_64_PC32:
                case R_X86_64_PLT32: {
                    int32_t relative = displacement(value, reinterpret_cast<uint64_t>(place));
                    std::memcpy(place, &relative, sizeof relative);
                    break;
                }
                case R_X86_64_GOTPCREL:
                case R_X86_64_GOTPCRELX:
                case R_X86_64_REX_GOTPCRELX: {
                    std::byte* slot = memory_ + stubs + number * kStub + kAddressInStub;
                    if (outside[number] == 0) std::memcpy(slot, &addresses[number], sizeof(uint64_t));
                    uint64_t where = reinterpret_cast<uint64_t>(slot) + static_cast<uint64_t>(relocation.r_addend);
                    int32_t relative = displacement(where, reinterpret_cast<uint64_t>(place));
                    std::memcpy(place, &relative, sizeof relative);
                    break;
                }
                case R_X86_64_64:
                    if (relocation.r_offset + 8 > section(s.sh_info).sh_size)
                        fail("object code: a relocation is cut short");
                    std::memcpy(place, &value, sizeof value);
                    break;
                default:
                    fail("object code: there is no rule for relocation " +
                         std::to_string(ELF64_R_TYPE(relocation.r_info)));
            }
        }
    }
    if (mprotect(memory_, size_, PROT_READ | PROT_EXEC) != 0) fail("object code: memory can't be made executable");
}

ObjectCode::~ObjectCode() {
    if (memory_) munmap(memory_, size_);
}

#else

ObjectCode::ObjectCode(std::string_view, const std::unordered_map<std::string, uint64_t>&) {
    fail("object code: there is no linker for this machine");
}
ObjectCode::~ObjectCode() = default;

#endif

uint64_t ObjectCode::address(const std::string& symbol) const {
    auto found = defined_.find(symbol);
    return found == defined_.end() ? 0 : found->second;
}

}  // namespace mt
