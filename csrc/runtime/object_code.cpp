#include "runtime/object_code.h"

#include <cstring>
#include <vector>

#include "core/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <dlfcn.h>
#include <elf.h>
#endif

namespace mt {

#if defined(__x86_64__) && defined(__linux__)

namespace {

[[noreturn]] void unsound(const std::string& what) { fail("object code: " + what); }
[[noreturn]] void unsupported(const std::string& what) {
    throw Error(ErrorKind::NotImplemented, "object code: there is no rule for " + what);
}

// A name as an error can show it.
std::string shown(std::string_view name) {
    std::string text(name);
    for (char& c : text)
        if (c < ' ' || c > '~') c = '?';
    return text;
}

// A jump to anywhere: jmp *0(%rip), and the address behind it. The address alone serves as the entry of a table.
constexpr size_t kStub = 16, kStubAddress = 8;

// The file, read within its bounds.
class File {
  public:
    explicit File(std::string_view bytes) : bytes_(bytes) {
        auto head = read<Elf64_Ehdr>(0);
        if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) unsound("it is not an object");
        if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_REL ||
            head.e_machine != EM_X86_64)
            unsupported("another machine's code");
        if (head.e_shentsize != sizeof(Elf64_Shdr)) unsound("the size of its section headers");
        for (size_t i = 0; i < head.e_shnum; ++i) sections.push_back(read<Elf64_Shdr>(head.e_shoff, i));
    }
    template <class T>
    T read(uint64_t offset, uint64_t index = 0) const {
        T value;
        if (index > bytes_.size() || offset > bytes_.size()) unsound("something is outside");
        std::memcpy(&value, part(offset + index * sizeof(T), sizeof(T)).data(), sizeof(T));
        return value;
    }
    std::string_view part(uint64_t offset, uint64_t size) const {
        if (offset > bytes_.size() || size > bytes_.size() - offset) unsound("something is outside");
        return bytes_.substr(offset, size);
    }
    std::string_view name(const Elf64_Shdr& strings, uint64_t offset) const {
        std::string_view all = part(strings.sh_offset, strings.sh_size);
        if (offset >= all.size()) unsound("a name is outside");
        all.remove_prefix(offset);
        size_t end = all.find('\0');
        if (end == std::string_view::npos) unsound("a name has no end");
        return all.substr(0, end);
    }
    const Elf64_Shdr& section(uint64_t index) const {
        if (index >= sections.size()) unsound("a section is missing");
        return sections[index];
    }
    std::vector<Elf64_Shdr> sections;

  private:
    std::string_view bytes_;
};

struct Symbol {
    std::string name;
    unsigned section;  // SHN_UNDEF: defined elsewhere
    uint64_t value;
    bool weak;
    size_t stub = 0;  // where its stub is in memory; 0: it has none
};

uint64_t find_in_process(const Symbol& symbol) {
    void* found = dlsym(RTLD_DEFAULT, symbol.name.c_str());
    if (!found && !symbol.weak) unsound("it refers to " + shown(symbol.name) + ", which is not there");
    return reinterpret_cast<uint64_t>(found);
}

class Linker {
  public:
    Linker(const File& file, const std::unordered_map<std::string, uint64_t>& imports)
        : file_(file), imports_(imports), places_(file.sections.size(), kNowhere) {
        place_sections();
        read_symbols();
        place_stubs();
    }
    size_t size() const { return size_; }

    void write(std::byte* memory) {
        std::memset(memory, 0xCC, size_);  // traps
        for (size_t i = 0; i < places_.size(); ++i) {
            const Elf64_Shdr& section = file_.sections[i];
            if (places_[i] == kNowhere || section.sh_size == 0) continue;
            std::memcpy(memory + places_[i], file_.part(section.sh_offset, section.sh_size).data(), section.sh_size);
        }
        for (Symbol& symbol : symbols_) {
            if (!symbol.stub) continue;
            std::byte* stub = memory + symbol.stub;
            const unsigned char jump[kStubAddress] = {0xFF, 0x25, 2, 0, 0, 0, 0xCC, 0xCC};
            uint64_t address = address_of(symbol, memory);
            std::memcpy(stub, jump, sizeof jump);
            std::memcpy(stub + kStubAddress, &address, sizeof address);
        }
        each_relocation(
            [&](const Elf64_Shdr& target, size_t place, const Elf64_Rela& r) { apply(memory, target, place, r); });
    }

    // Functions with a name.
    std::unordered_map<std::string, uint64_t> defined(const std::byte* memory) const {
        std::unordered_map<std::string, uint64_t> found;
        for (const Symbol& symbol : symbols_)
            if (symbol.section != SHN_UNDEF && symbol.section < places_.size() && !symbol.name.empty() &&
                places_[symbol.section] != kNowhere)
                found[symbol.name] = reinterpret_cast<uint64_t>(memory) + places_[symbol.section] + symbol.value;
        return found;
    }

  private:
    static constexpr size_t kNowhere = SIZE_MAX;

    void place_sections() {
        for (size_t i = 0; i < places_.size(); ++i) {
            const Elf64_Shdr& section = file_.sections[i];
            if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_X86_64_UNWIND) continue;
            if (section.sh_flags & (SHF_WRITE | SHF_TLS) && section.sh_size) unsupported("variables");
            if (section.sh_type != SHT_PROGBITS && section.sh_size) unsupported("a section of an unknown type");
            size_t align = section.sh_addralign ? section.sh_addralign : 1;
            if (align & (align - 1) || align > 4096) unsupported("an alignment of " + std::to_string(align));
            file_.part(section.sh_offset, section.sh_size);
            size_ = (size_ + align - 1) & ~(align - 1);
            places_[i] = size_;
            size_ += section.sh_size;
        }
    }

    void read_symbols() {
        for (const Elf64_Shdr& section : file_.sections) {
            if (section.sh_type != SHT_SYMTAB) continue;
            if (!symbols_.empty()) unsound("it has two tables of symbols");
            const Elf64_Shdr& strings = file_.section(section.sh_link);
            file_.part(section.sh_offset, section.sh_size);
            for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
                auto s = file_.read<Elf64_Sym>(section.sh_offset, i);
                symbols_.push_back({std::string(file_.name(strings, s.st_name)), s.st_shndx, s.st_value,
                                    ELF64_ST_BIND(s.st_info) == STB_WEAK});
            }
        }
    }

    // What is called in other places, which may be too far for a call, and what is read from a table of addresses.
    void place_stubs() {
        size_ = (size_ + kStub - 1) & ~(kStub - 1);
        each_relocation([&](const Elf64_Shdr&, size_t, const Elf64_Rela& r) {
            Symbol& symbol = symbol_of(r);
            auto type = ELF64_R_TYPE(r.r_info);
            bool table = type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
            if (symbol.stub || !(table || symbol.section == SHN_UNDEF)) return;
            symbol.stub = size_ ? size_ : kStub;  // 0 says that there is none
            size_ = symbol.stub + kStub;
        });
    }

    template <class F>
    void each_relocation(F&& body) {
        for (const Elf64_Shdr& section : file_.sections) {
            if (section.sh_type == SHT_REL) unsupported("relocations without addends");
            if (section.sh_type != SHT_RELA) continue;
            const Elf64_Shdr& target = file_.section(section.sh_info);
            size_t place = places_[section.sh_info];
            if (place == kNowhere) continue;  // of what is not loaded
            file_.part(section.sh_offset, section.sh_size);
            for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Rela); ++i)
                body(target, place, file_.read<Elf64_Rela>(section.sh_offset, i));
        }
    }

    Symbol& symbol_of(const Elf64_Rela& relocation) {
        auto index = ELF64_R_SYM(relocation.r_info);
        if (index >= symbols_.size()) unsound("a symbol is missing");
        return symbols_[index];
    }

    uint64_t address_of(const Symbol& symbol, const std::byte* memory) const {
        if (symbol.section == SHN_ABS) return symbol.value;
        if (symbol.section == SHN_UNDEF) {
            auto import = imports_.find(symbol.name);
            return import != imports_.end() ? import->second : find_in_process(symbol);
        }
        if (symbol.section >= places_.size() || places_[symbol.section] == kNowhere)
            unsupported("a symbol without a section: " + shown(symbol.name));
        return reinterpret_cast<uint64_t>(memory) + places_[symbol.section] + symbol.value;
    }

    void apply(std::byte* memory, const Elf64_Shdr& target, size_t place, const Elf64_Rela& relocation) {
        auto type = ELF64_R_TYPE(relocation.r_info);
        uint64_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
        if (target.sh_size < width || relocation.r_offset > target.sh_size - width) unsound("a relocation is outside");
        std::byte* field = memory + place + relocation.r_offset;
        const Symbol& symbol = symbol_of(relocation);
        auto addend = static_cast<uint64_t>(relocation.r_addend), here = reinterpret_cast<uint64_t>(field);
        auto in_stub = reinterpret_cast<uint64_t>(memory) + symbol.stub;
        switch (type) {
            case R_X86_64_64: return put(field, address_of(symbol, memory) + addend);
            case R_X86_64_PC64: return put(field, address_of(symbol, memory) + addend - here);
            case R_X86_64_PC32: return put_near(field, address_of(symbol, memory) + addend - here, symbol);
            case R_X86_64_PLT32: {
                uint64_t distance = address_of(symbol, memory) + addend - here;
                if (symbol.stub && !is_near(distance)) distance = in_stub + addend - here;
                return put_near(field, distance, symbol);
            }
            case R_X86_64_GOTPCREL:
            case R_X86_64_GOTPCRELX:
            case R_X86_64_REX_GOTPCRELX: return put_near(field, in_stub + kStubAddress + addend - here, symbol);
            default: unsupported("a relocation of type " + std::to_string(type));
        }
    }

    static bool is_near(uint64_t distance) {
        return static_cast<int64_t>(distance) == static_cast<int32_t>(static_cast<int64_t>(distance));
    }
    static void put(std::byte* field, uint64_t value) { std::memcpy(field, &value, sizeof value); }
    static void put_near(std::byte* field, uint64_t distance, const Symbol& symbol) {
        if (!is_near(distance)) unsound("it is too far from " + shown(symbol.name));
        auto value = static_cast<int32_t>(static_cast<int64_t>(distance));
        std::memcpy(field, &value, sizeof value);
    }

    const File& file_;
    const std::unordered_map<std::string, uint64_t>& imports_;
    std::vector<size_t> places_;  // of sections in memory
    std::vector<Symbol> symbols_;
    size_t size_ = 0;
};

}  // namespace

ObjectCode::ObjectCode(std::string_view bytes, const std::unordered_map<std::string, uint64_t>& imports) {
    File file(bytes);
    Linker linker(file, imports);
    if (linker.size() == 0) unsound("it has no code");
    memory_ = std::make_unique<CodeMemory>(linker.size(), [&](std::byte* data) { linker.write(data); });
    defined_ = linker.defined(memory_->data());
}

#else

ObjectCode::ObjectCode(std::string_view, const std::unordered_map<std::string, uint64_t>&) {
    throw Error(ErrorKind::NotImplemented, "object code: there is no linker for this machine");
}

#endif

uint64_t ObjectCode::address(const std::string& symbol) const {
    auto found = defined_.find(symbol);
    return found == defined_.end() ? 0 : found->second;
}

}  // namespace mt
