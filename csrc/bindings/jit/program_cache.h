// The programs that a compiled function keeps, one for each kind of arguments, and the lookup of the one that a call
// fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/py.h"
#include "trace/program/program.h"

namespace mt::py {

struct CacheEntry {
    std::vector<PyObject*> others;  // per argument: null for a tensor, else the value, owned
    std::vector<PyObject*> types;   // of the tensors, owned
    PyObject* guards;               // null: the function reads nothing of Python's state
    std::shared_ptr<trace::Program> program;
    uint64_t options;
    uint64_t settings;  // that were in force (dispatch/thread_local_state.h)
    uint64_t bare;  // a bit for each tensor that had no attributes of Python's
    // null: one tensor; the types tuple and list: these of tensors; else the structure (functions/arguments.py)
    PyObject* result_type;
};

class ProgramCache {
  public:
    // What a kept program gives for these arguments; null if none fits.
    PyObject* run(PyObject* const* args, size_t nargs);
    // Runs what was recorded while the function ran. The program is kept for later calls if they can do without Python;
    // returns None then, and otherwise the reason why they can't, or how many more runs it takes until it is settled
    // what of it is compiled. `structure` is that of a result whose tensors are `result`, None for a plain one.
    // `guards` is what the function read of Python's state, or a text that says why it can't be kept.
    PyObject* finish(PyObject* args, PyObject* result, PyObject* structure, PyObject* guards);
    void clear();
    int traverse(visitproc visit, void* arg) const;

    size_t size() const { return entries_.size(); }
    uint64_t hits() const { return hits_; }  // calls that ran a kept program

  private:
    void add(const CacheEntry& entry);

    std::vector<CacheEntry> entries_;
    uint64_t hits_ = 0;
};

// Whether of the programs that this thread tried last one fits, but was running on another thread.
bool program_was_busy();

}  // namespace mt::py
