// What compiling may cost: what a program may lose, what a plan is expected to take, and what its ops have taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt::trace {

class Trace;
struct Plan;

// What programs have lost is on one account, since their time is the process's.
void open_account();
// An earlier process has found out what there is to win: there is less to be tried.
void expect_less(bool again);
bool affords(int64_t cost_ns);
void lose(int64_t ns);

// What compiling is expected to take, and was seen to take;
int64_t cost_of_plan(size_t nodes);
void note_cost_of_plan(size_t nodes, int64_t took_ns);
// handing a trace to another process, and taking its plan back.
int64_t cost_of_asking(size_t nodes, bool put_off = false);
int64_t cost_of_recalling();
void note_cost_of_recalling(int64_t took_ns);

// A trace by its signature.
struct Signature {
    uint32_t requests = 0;
    // Whether it is being compiled by a process or a thread beside the program; Ready: on disk, Made: in memory.
    enum class At : uint8_t { Nowhere, Asked, Ready, Made, Hopeless } at = At::Nowhere;
    bool before = false;   // asked by an earlier process, whose helper may be at it still
    bool here = false;     // asked of a thread of this process
    bool put_off = false;  // asked, and nobody is at it before the program ends
    int64_t ops_ns = 0;    // what its ops have taken, one by one
};
Signature& signature_of(uint64_t hash);
Signature::At whereabouts(uint64_t hash);
// Whether a process or a thread is at it.
bool is_underway(uint64_t hash);
// An earlier process asked for it.
void note_asked_before(uint64_t hash);
// A thread of this process has compiled it.
void note_made(uint64_t hash);
void forget_signatures();
// Where the helpers of earlier processes leave their marks; empty: nowhere.
void set_marks_folder(std::string folder);

// The fastest runs of a launch and of its ops.
struct Timed {
    int64_t launch_ns, ops_ns;
};

// Traces that differ in sizes and numbers only.
struct Structure {
    uint32_t requests = 0;
    uint32_t vain = 0;      // plans in a row that were not needed again
    int64_t ops_ns = 0;     // what its ops have taken, one by one, beyond what plans have
    int64_t plan_ns = 0;    // what the last plan took
    // What its launches took, and their ops, at so much work in bytes. Empty: not known.
    std::vector<Timed> timed;
    int64_t timed_bytes = 0;
};
uint64_t structure_of(const Trace& trace);

// Whether a trace that no program's run is, of a scope, a session or a function, is to be compiled now. `asked`: the
// program says so of its ops.
bool is_worth_a_plan(const Trace& trace, uint64_t hash, uint64_t structure, bool asked);
// Its plan took so long to make; it is needed again; its ops ran one by one.
void note_plan(uint64_t structure, int64_t took_ns);
void note_reuse(uint64_t structure);
void note_ops(const Plan& plan);
// What its launches, with so much work in bytes, and their ops took. What so many launches did at this work or more,
// null if that isn't known.
void note_timed(uint64_t structure, const std::vector<Timed>& timed, int64_t work_bytes);
const std::vector<Timed>* timed_before(uint64_t structure, size_t launches, int64_t work_bytes);

}  // namespace mt::trace
