// What tells files apart without reading them: the cache on disk asks that of the compiler's own at every start.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/py.h"

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
            found.push_back(path + '/' + entry->d_name + ' ' + std::to_string(info.st_size) + ' ' +
                            std::to_string(info.st_mtim.tv_sec) + ' ' + std::to_string(info.st_mtim.tv_nsec));
        } else if (depth < kDeepest && name.find('.') == name.npos && name != "__pycache__") {
            int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (inner >= 0) add_stamps(inner, path + '/' + entry->d_name, endings, depth + 1, found);
        }
    }
}

PyObject* py_file_stamps(PyObject*, PyObject* args) {
    PyObject *path, *wanted;
    if (!PyArg_ParseTuple(args, "O&O!:file_stamps", PyUnicode_FSConverter, &path, &PyTuple_Type, &wanted))
        return nullptr;
    return guarded([&, held = PyRef(path)]() -> PyObject* {
        const char* folder = PyBytes_AS_STRING(path);
        std::vector<std::string> endings, found;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i) {
            const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(wanted, i));
            if (!text) fail_python();
            endings.emplace_back(text);
        }
        int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (opened >= 0) add_stamps(opened, folder, endings, 0, found);
        std::sort(found.begin(), found.end());
        std::string all;
        for (const std::string& one : found) (all += one) += '\n';
        return PyBytes_FromStringAndSize(all.data(), static_cast<Py_ssize_t>(all.size()));
    });
}

PyMethodDef functions[] = {
    {"file_stamps", py_file_stamps, METH_VARARGS,
     "file_stamps(folder, endings): path, size and time of every file in a folder, and in those within, that ends so."},
    {}};

}  // namespace

bool init_file_stamps(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace mt::py
