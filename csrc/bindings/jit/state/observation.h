// An observation under way, and what is known of the code that it sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/jit/state/frames.h"

#if MT_CAN_OBSERVE

namespace mt::py {

// What is known of an instruction, as minitensor_jit/state/instructions.py tells: how many operands the stack has for
// it (or where else they are), how much is on the stack before it runs, and what it is to be told of it.
enum Operands : int32_t { kCell = -1, kNames = -2 };
enum Flags : int32_t { kSeen = 1, kMakes = 2, kPrefix = 4 };
struct CodeStep {
    int32_t opcode, argument, operands, depth, flags;
};

enum CodeKind { kUser, kInternal, kLibrary, kImport };

struct CodeFacts {
    CodeKind kind = kUser;
    uint64_t watched = 0;  // the events that it gives, see `events`
    enum : uint8_t { kUnknown, kNone, kSome } settings = kUnknown;  // of ours, that it names
    std::unique_ptr<CodeStep[]> steps;  // of each code unit
    size_t count = 0;
};

struct Observation {
    PyObject* handler = nullptr;  // called with (opcode, argument, code, instruction, operands)
    PyObject* steps = nullptr;    // called with code
    PyObject* module_type = nullptr;
    PyObject* settings = nullptr;  // names of the framework's settings
    PyObject* made = nullptr;  // a list of dicts that the collector doesn't know, and that are new; or null
    PyThreadState* thread = nullptr;
    Frame* base = nullptr;    // from which the program was called
    Frame* import = nullptr;  // what runs below is not observed
    PyCodeObject* import_code = nullptr;
    std::vector<Frame*> makers;  // run an instruction that may make a dict, the last of each
    bool failed = false;
    Py_tracefunc other = nullptr;  // somebody else's, such as a debugger's
    PyObject* other_argument = nullptr;
};

// This thread's; null: none.
extern thread_local Observation* observation;

enum class Tracing { None, Instructions, Failed };

CodeFacts* facts_of(PyCodeObject* code);
CodeKind kind_of(PyCodeObject* code);
// What the instructions of some code do; null: the observation has failed.
const CodeFacts* planned(Observation& o, PyCodeObject* code);
bool before_instruction(Observation& o, Frame* frame, size_t at);
// Whether a library's frame runs for the program, and not for the framework.
bool is_programs(const Observation& o, Frame* frame);
// Whether what runs now was imported, which is not observed.
bool is_imported(Observation& o, Frame* frame);
// A function's frame begins or goes on: whether its instructions are to be seen.
Tracing at_call(Observation& o, Frame* frame);

// observer_events.cpp: has the interpreter tell of calls and instructions. False: it can't.
bool start_events();
void stop_events();

}  // namespace mt::py

#endif
