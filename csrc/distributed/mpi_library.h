// An MPI library, found at run time, by the standard's binary interface (MPI 5.0, chapter 20): no MPI is needed to
// build, and any library that has the interface will do.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace mt::distributed {

struct MpiOpaque;
using MpiHandle = MpiOpaque*;  // communicators, groups, datatypes, requests, messages: pointers to something incomplete

struct MpiStatus {
    int source, tag, error, internal[5];
};

class MpiLibrary {
  public:
    // The library of this process, loaded from `path` and initialised by the first call. Throws.
    static MpiLibrary& load(const std::string& path);
    // The one that was loaded, or null.
    static MpiLibrary* loaded();

    int rank = 0, size = 1;  // in the world
    MpiHandle world = nullptr;  // a communicator of our own for all processes

    // Calls are made one at a time: libraries need only be able to serialise threads.
    std::mutex mutex;

    int (*isend)(const void*, int, MpiHandle, int, int, MpiHandle, MpiHandle*);
    int (*improbe)(int, int, MpiHandle, int*, MpiHandle*, MpiStatus*);
    int (*imrecv)(void*, int, MpiHandle, MpiHandle*, MpiHandle*);
    int (*test)(MpiHandle*, int*, MpiStatus*);
    int (*ibarrier)(MpiHandle, MpiHandle*);
    int (*get_count)(const MpiStatus*, MpiHandle, int*);
    int (*comm_group)(MpiHandle, MpiHandle*);
    int (*group_incl)(MpiHandle, int, const int*, MpiHandle*);
    int (*group_free)(MpiHandle*);
    int (*comm_create_group)(MpiHandle, MpiHandle, int, MpiHandle*);
    int (*comm_free)(MpiHandle*);
    int (*comm_set_errhandler)(MpiHandle, MpiHandle);
    int (*error_string)(int, char*, int*);
    int (*finalize)();
    int (*finalized)(int*);

    // Throws what a return code means.
    void check(int code, const char* what) const;
    // Ends MPI, unless somebody else began it. All processes wait for each other there; if they don't come within
    // `nanoseconds`, it stays as it is.
    void end(int64_t nanoseconds);

    bool began = false, ended = false;
};

// The interface's constants.
inline const MpiHandle kMpiByte = reinterpret_cast<MpiHandle>(0x247);
inline const MpiHandle kMpiWorld = reinterpret_cast<MpiHandle>(0x101);
inline const MpiHandle kMpiNoRequest = reinterpret_cast<MpiHandle>(0x180);
inline const MpiHandle kMpiErrorsReturn = reinterpret_cast<MpiHandle>(0x143);
inline constexpr int kMpiThreadSerialized = 2048;

}  // namespace mt::distributed
