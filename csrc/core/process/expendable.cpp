#include "core/process/expendable.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/process/fork.h"

namespace mt {

namespace {

constexpr size_t kStack = size_t{64} << 20, kSignalStack = size_t{64} << 10;
constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};

struct Call {
    void (*body)(void*);
    void* argument;
    sem_t ended;
    volatile int how = -1;
};

constinit thread_local Call* t_call = nullptr;
int g_calls = 0;  // under the lock of signals
struct sigaction g_before[std::size(kSignals)];

[[noreturn]] void stay(int how) {
    t_call->how = how;
    sem_post(&t_call->ended);
    for (;;) pause();
}

void on_signal(int signal, siginfo_t* info, void* context) {
    if (t_call) stay(signal);
    // Another thread's: as if this handler were not there.
    size_t i = 0;
    while (kSignals[i] != signal) ++i;
    const struct sigaction& before = g_before[i];
    if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
    if (before.sa_handler == SIG_IGN) return;
    if (before.sa_handler != SIG_DFL) return before.sa_handler(signal);
    sigaction(signal, &before, nullptr);
    raise(signal);
}

void on_exit() {
    if (t_call) stay(0);
}

void* run(void* argument) {
    t_call = static_cast<Call*>(argument);
    char* memory = static_cast<char*>(std::malloc(kSignalStack));
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = kSignalStack;
    if (memory) sigaltstack(&stack, nullptr);
    t_call->body(t_call->argument);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    std::free(memory);
    Call* call = std::exchange(t_call, nullptr);
    sem_post(&call->ended);
    return nullptr;
}

void watch() {
    std::lock_guard lock(process_lock(ProcessLock::Signals));
    if (g_calls++) return;
    [[maybe_unused]] static const int known = std::atexit(on_exit);
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &g_before[i]);
}

void give_signals_back() {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
        struct sigaction now{};
        sigaction(kSignals[i], nullptr, &now);
        if (now.sa_sigaction == on_signal) sigaction(kSignals[i], &g_before[i], nullptr);
    }
}

void unwatch() {
    std::lock_guard lock(process_lock(ProcessLock::Signals));
    if (--g_calls == 0) give_signals_back();
}

// A child has none of the threads that run a call, and nobody there waits for one.
[[maybe_unused]] const bool forgotten = at_fork_in_child([] {
    if (std::exchange(g_calls, 0)) give_signals_back();
});

}  // namespace

int run_expendable(void (*body)(void*), void* argument) {
    Call call{body, argument, {}};
    sem_init(&call.ended, 0, 0);
    watch();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, run, &call);
    pthread_attr_destroy(&attributes);
    if (!failed)
        while (sem_wait(&call.ended) && errno == EINTR) {}
    unwatch();
    if (failed) fail("the system gives no more threads");
    return call.how;
}

}  // namespace mt
