#include "distributed/mpi_library.h"

#include <dlfcn.h>

#include <chrono>
#include <thread>

#include "core/error.h"

namespace mt::distributed {

namespace {

MpiLibrary* g_library = nullptr;

template <class F>
void find(void* handle, const char* name, F*& function) {
    function = reinterpret_cast<F*>(dlsym(handle, name));
    if (!function) fail(std::string("MPI: the library has no ") + name);
}

}  // namespace

void MpiLibrary::check(int code, const char* what) const {
    if (code == 0) return;
    char text[1024] = {};
    int length = 0;
    if (error_string) error_string(code, text, &length);
    fail(std::string(what) + ": " + (length ? text : "error " + std::to_string(code)));
}

MpiLibrary* MpiLibrary::loaded() { return g_library; }

MpiLibrary& MpiLibrary::load(const std::string& path) {
    if (g_library) return *g_library;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail(std::string("MPI: ") + dlerror());
    int (*abi_version)(int*, int*);
    find(handle, "MPI_Abi_get_version", abi_version);
    int major = 0, minor = 0;
    abi_version(&major, &minor);
    if (major != 1) fail("MPI: " + path + " has version " + std::to_string(major) + " of the binary interface, not 1");
    auto* made = new MpiLibrary;
    int (*initialized)(int*);
    int (*init_thread)(int*, char***, int, int*);
    int (*query_thread)(int*);
    int (*comm_rank)(MpiHandle, int*);
    int (*comm_size)(MpiHandle, int*);
    int (*comm_dup)(MpiHandle, MpiHandle*);
    find(handle, "MPI_Initialized", initialized);
    find(handle, "MPI_Init_thread", init_thread);
    find(handle, "MPI_Query_thread", query_thread);
    find(handle, "MPI_Comm_rank", comm_rank);
    find(handle, "MPI_Comm_size", comm_size);
    find(handle, "MPI_Comm_dup", comm_dup);
    find(handle, "MPI_Isend", made->isend);
    find(handle, "MPI_Improbe", made->improbe);
    find(handle, "MPI_Imrecv", made->imrecv);
    find(handle, "MPI_Test", made->test);
    find(handle, "MPI_Ibarrier", made->ibarrier);
    find(handle, "MPI_Get_count", made->get_count);
    find(handle, "MPI_Comm_group", made->comm_group);
    find(handle, "MPI_Group_incl", made->group_incl);
    find(handle, "MPI_Group_free", made->group_free);
    find(handle, "MPI_Comm_create_group", made->comm_create_group);
    find(handle, "MPI_Comm_free", made->comm_free);
    find(handle, "MPI_Comm_set_errhandler", made->comm_set_errhandler);
    find(handle, "MPI_Error_string", made->error_string);
    find(handle, "MPI_Finalize", made->finalize);
    find(handle, "MPI_Finalized", made->finalized);
    int there = 0, provided = 0;
    made->check(initialized(&there), "MPI_Initialized");
    if (there) {
        made->check(query_thread(&provided), "MPI_Query_thread");
    } else {
        made->check(init_thread(nullptr, nullptr, kMpiThreadSerialized, &provided), "MPI_Init_thread");
        made->began = true;
    }
    if (provided < kMpiThreadSerialized) fail("MPI: the library can't be called by several threads in turn");
    made->check(comm_dup(kMpiWorld, &made->world), "MPI_Comm_dup");
    made->check(made->comm_set_errhandler(made->world, kMpiErrorsReturn), "MPI_Comm_set_errhandler");
    made->check(comm_rank(made->world, &made->rank), "MPI_Comm_rank");
    made->check(comm_size(made->world, &made->size), "MPI_Comm_size");
    g_library = made;
    return *made;
}

void MpiLibrary::end(int64_t nanoseconds) {
    int over = 0;
    if (!began || (finalized(&over), over)) return;
    ended = true;
    // MPI_Finalize itself would wait for a process that is stuck.
    MpiHandle request = kMpiNoRequest;
    if (ibarrier(world, &request) != 0) return;
    const auto begun = std::chrono::steady_clock::now();
    for (int come = 0; test(&request, &come, nullptr) == 0 && !come;) {
        if (std::chrono::steady_clock::now() - begun > std::chrono::nanoseconds(nanoseconds)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    finalize();
}

}  // namespace mt::distributed
