// What tells files apart without reading them: the cache on disk asks that of the compiler's own at every start.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/py.h"
#include "dispatch/call.h"

namespace mt::py {

namespace {

constexpr int kDeepest = 16;  // a link may lead back up

void add_stamps(int folder, const std::string& path, const std::vector<std::string>& endings, int depth,
                std::vector<std::string>& found) {
    std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(folder), closedir);
    if (!listing) {
        close(folder);
        return;
    }
    while (const dirent* entry = readdir(listing.get())) {
        const std::string_view name = entry->d_name;
        const bool wanted = std::any_of(endings.begin(), endings.end(),
                                        [&](const std::string& ending) { return name.ends_with(ending); });
        if (wanted) {
            struct stat info;
            if (fstatat(folder, entry->d_name, &info, 0) != 0) continue;
            std::string stamp = path;
            (stamp += '/') += entry->d_name;
            for (int64_t number : {int64_t{info.st_size}, int64_t{info.st_mtim.tv_sec}, int64_t{info.st_mtim.tv_nsec}})
                (stamp += ' ') += std::to_string(number);
            found.push_back(std::move(stamp));
        } else if (depth < kDeepest && name.find('.') == name.npos && name != "__pycache__") {
            int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            std::string below = path;
            (below += '/') += entry->d_name;
            if (inner >= 0) add_stamps(inner, below, endings, depth + 1, found);
        }
    }
}

using Names = std::vector<std::string>;

std::string stamps_of(const Names& folders, const Names& endings) {
    std::string all;
    for (const std::string& folder : folders) {
        Names found;
        int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (opened >= 0) add_stamps(opened, folder, endings, 0, found);
        std::sort(found.begin(), found.end());
        for (const std::string& one : found) (all += one) += '\n';
    }
    return all;
}

// Stamps that a thread is reading while the program goes on.
struct Reading {
    Names folders, endings;
    pid_t process = getpid();
    std::mutex mutex;
    std::condition_variable changed;
    bool begun = false, done = false;
    std::string stamps;

    void begin(std::shared_ptr<Reading> self) {
        sigset_t all, before;  // signals belong to the program's own threads
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        begun = true;
        try {
            std::thread([self] { self->read(); }).detach();
        } catch (const std::system_error&) { begun = false; }  // whoever waits reads them
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void read() noexcept {
        std::string read;
        bool failed = false;
        try {
            read = stamps_of(folders, endings);
        } catch (...) { failed = true; }
        std::lock_guard lock(mutex);
        begun = !failed;
        done = true;
        stamps = std::move(read);
        changed.notify_all();
    }

    std::string wait() {
        // In a forked child nobody reads them, and the lock may be held for ever.
        if (process != getpid()) return stamps_of(folders, endings);
        std::unique_lock lock(mutex);
        if (begun) changed.wait(lock, [this] { return done; });
        return begun ? stamps : stamps_of(folders, endings);
    }
};

constexpr char kReading[] = "minitensor.Reading";

Names names_of(PyObject* tuple) {
    Names names;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* bytes;
        if (!PyUnicode_FSConverter(PyTuple_GET_ITEM(tuple, i), &bytes)) fail_python();
        names.emplace_back(PyBytes_AS_STRING(PyRef(bytes).get()));
    }
    return names;
}

void drop_reading(PyObject* capsule) {
    delete static_cast<std::shared_ptr<Reading>*>(PyCapsule_GetPointer(capsule, kReading));
}

PyObject* py_read_file_stamps(PyObject*, PyObject* args) {
    PyObject *folders, *endings;
    if (!PyArg_ParseTuple(args, "O!O!:read_file_stamps", &PyTuple_Type, &folders, &PyTuple_Type, &endings))
        return nullptr;
    return guarded([&]() -> PyObject* {
        auto reading = std::make_shared<Reading>();
        reading->folders = names_of(folders);
        reading->endings = names_of(endings);
        auto held = std::make_unique<std::shared_ptr<Reading>>(reading);
        PyObject* capsule = PyCapsule_New(held.get(), kReading, slot<drop_reading>);
        if (!capsule) return nullptr;
        held.release();
        reading->begin(reading);
        return capsule;
    });
}

PyObject* py_file_stamps(PyObject*, PyObject* capsule) {
    auto* held = static_cast<std::shared_ptr<Reading>*>(PyCapsule_GetPointer(capsule, kReading));
    if (!held) return nullptr;
    return guarded([&]() -> PyObject* {
        std::string all;
        {
            ReleaseGil gil;
            all = (*held)->wait();
        }
        return PyBytes_FromStringAndSize(all.data(), static_cast<Py_ssize_t>(all.size()));
    });
}

PyMethodDef file_stamps_functions[] = {
    {"read_file_stamps", method<py_read_file_stamps>(), METH_VARARGS,
     "read_file_stamps(folders, endings): has a thread look at path, size and time of every file in some folders, and "
     "in those within, that ends so."},
    {"file_stamps", method<py_file_stamps>(), METH_O, "file_stamps(reading): what it has found, as bytes."},
    {}};

}  // namespace

bool init_file_stamps(PyObject* module) { return PyModule_AddFunctions(module, file_stamps_functions) == 0; }

}  // namespace mt::py
