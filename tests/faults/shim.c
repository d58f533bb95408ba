/* Fails one call of one process. Preloaded into a sweep and all its processes (LD_PRELOAD).
 *
 * It counts the calls of each role (the sweep, its host, the forkserver, a cell) on files below one folder, on pipes and
 * on sockets. The counters lie in a file that all processes map, which also says which call fails, and how. points.py
 * mirrors `struct state` and the order of the names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum role { SWEEP, HOST, FORKSERVER, CELL, NUM_ROLES, OTHER };
enum call { OPEN, CREATE, READ, WRITE, FSYNC, RENAME, UNLINK, CHMOD, MKDIR, TRUNCATE, FLOCK, FORK, EXEC, PIPE, SOCKET, BIND, LISTEN,
            CONNECT, ACCEPT, SENDMSG, RECVMSG, OUTSIDE, NUM_CALLS };
enum action { KILL = -1, TORN = -2, FULL = -3 }; /* else an errno */

static const char *const roles[] = {"sweep", "host", "forkserver", "cell"};
static const char *const calls[] = {"open", "create", "read", "write", "fsync", "rename", "unlink", "chmod", "mkdir", "truncate",
                                    "flock", "fork", "exec", "pipe", "socket", "bind", "listen", "connect", "accept",
                                    "sendmsg", "recvmsg", "outside"};

struct state {
    int role, call, nth, action; /* what fails; nth is 0 if nothing does */
    int tracing;                 /* whether each call is written to the log */
    int fired;
    int counts[NUM_ROLES][NUM_CALLS];
    char folder[1024]; /* whose files are watched */
    char log[1024];
};

static struct state *state;
static int role = OTHER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Called by a forked child of a prepared process, and at the start of every process that has FAULTS_STATE. */
void faults_attach(const char *path, int as) {
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (mapped == MAP_FAILED) return;
    state = mapped;
    role = as;
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAULTS_STATE");
    if (!path) return;
    char line[4096] = {0};
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
    long num = syscall(SYS_read, fd, line, sizeof line - 1);
    syscall(SYS_close, fd);
    for (long i = 0; i < num; i++)
        if (!line[i]) line[i] = ' ';
    if (strstr(line, "multiprocessing.forkserver")) faults_attach(path, FORKSERVER);
    else if (strstr(line, "accelbench.isolation.host")) faults_attach(path, HOST);
    else if (strstr(line, "accelbench.cli")) faults_attach(path, SWEEP);
}

static int watched(const char *path) { return !strncmp(path, state->folder, strlen(state->folder)); }

/* What the descriptor is of; empty if it is neither a pipe, nor a socket, nor a watched file. */
static void target_of(int fd, char *target, size_t size) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    long num = syscall(SYS_readlink, name, target, size - 1);
    target[num > 0 ? num : 0] = 0;
    if (!strncmp(target, "pipe:", 5)) strcpy(target, "pipe");
    else if (!strncmp(target, "socket:", 7)) strcpy(target, "socket");
    else if (!watched(target)) target[0] = 0;
}

static void log_call(int call, int nth, const char *target) {
    char line[2048];
    int num = snprintf(line, sizeof line, "%s %s %d %s\n", roles[role], calls[call], nth, target);
    int fd = syscall(SYS_openat, AT_FDCWD, state->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    syscall(SYS_write, fd, line, num);
    syscall(SYS_close, fd);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    pause();
}

/* 0 if the call is to go on; else what happens to it. Does not return if the process is to die. */
static int decide(int call, const char *target) {
    if (!state || role == OTHER) return 0;
    int nth = __atomic_add_fetch(&state->counts[role][call], 1, __ATOMIC_SEQ_CST);
    if (state->tracing) log_call(call, nth, target);
    int takes_room = call == WRITE || call == MKDIR || call == CREATE;
    if (state->action == FULL && state->fired && takes_room && target[0] == '/') return ENOSPC;
    if (state->nth != nth || state->call != call || state->role != role) return 0;
    state->fired = 1;
    if (state->action == KILL) die();
    return state->action == FULL ? ENOSPC : state->action;
}

static int decide_path(int call, const char *path) {
    if (!state || role == OTHER) return 0;
    char whole[4096];
    if (path[0] != '/') {
        char here[2048];
        if (syscall(SYS_getcwd, here, sizeof here) < 0) return 0;
        snprintf(whole, sizeof whole, "%s/%s", here, path);
        path = whole;
    }
    if (watched(path)) return decide(call, path);
    return (call == OPEN || call == CREATE) && strncmp(path, "/dev/", 5) ? decide(OUTSIDE, path) : 0;
}

static int decide_fd(int call, int fd) {
    if (!state || role == OTHER) return 0;
    char target[2048];
    target_of(fd, target, sizeof target);
    return target[0] ? decide(call, target) : 0;
}

#define FAIL_WITH(error)  \
    do {                  \
        int found = error; \
        if (found) {      \
            errno = found; \
            return -1;    \
        }                 \
    } while (0)

#define OPENER(name, before, parameters, arguments)       \
    int name(before const char *path, int flags, ...) {   \
        va_list list;                                     \
        va_start(list, flags);                            \
        int creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; \
        int mode = creates ? va_arg(list, int) : 0;       \
        va_end(list);                                     \
        FAIL_WITH(decide_path(creates ? CREATE : OPEN, path)); \
        return ((int(*)(parameters const char *, int, ...))dlsym(RTLD_NEXT, #name))(arguments path, flags, mode); \
    }
#define NOTHING
#define COMMA ,
OPENER(open, NOTHING, NOTHING, NOTHING)
OPENER(open64, NOTHING, NOTHING, NOTHING)
OPENER(openat, int folder COMMA, int COMMA, folder COMMA)
OPENER(openat64, int folder COMMA, int COMMA, folder COMMA)

ssize_t read(int fd, void *buffer, size_t size) {
    FAIL_WITH(decide_fd(READ, fd));
    return REAL(read)(fd, buffer, size);
}

ssize_t write(int fd, const void *buffer, size_t size) {
    int error = decide_fd(WRITE, fd);
    if (error == TORN) {
        REAL(write)(fd, buffer, size / 2);
        die();
    }
    FAIL_WITH(error);
    return REAL(write)(fd, buffer, size);
}

ssize_t pwrite64(int fd, const void *buffer, size_t size, off64_t offset) {
    int error = decide_fd(WRITE, fd);
    if (error == TORN) {
        REAL(pwrite64)(fd, buffer, size / 2, offset);
        die();
    }
    FAIL_WITH(error);
    return REAL(pwrite64)(fd, buffer, size, offset);
}

#define ON_FD(call, name, parameters, arguments) \
    int name(int fd parameters) {                \
        FAIL_WITH(decide_fd(call, fd));          \
        return REAL(name)(fd arguments);         \
    }
#define ON_PATH(call, name, parameters, arguments) \
    int name(const char *path parameters) {        \
        FAIL_WITH(decide_path(call, path));        \
        return REAL(name)(path arguments);         \
    }
ON_FD(FSYNC, fsync, NOTHING, NOTHING)
ON_FD(FSYNC, fdatasync, NOTHING, NOTHING)
ON_FD(TRUNCATE, ftruncate64, COMMA off64_t size, COMMA size)
ON_FD(LISTEN, listen, COMMA int size, COMMA size)
ON_FD(FLOCK, flock, COMMA int operation, COMMA operation)
ON_PATH(RENAME, rename, COMMA const char *to, COMMA to)
ON_PATH(UNLINK, unlink, NOTHING, NOTHING)
ON_PATH(CHMOD, chmod, COMMA mode_t mode, COMMA mode)
ON_PATH(MKDIR, mkdir, COMMA mode_t mode, COMMA mode)

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    FAIL_WITH(decide_fd(SENDMSG, fd));
    return REAL(sendmsg)(fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    FAIL_WITH(decide_fd(RECVMSG, fd));
    return REAL(recvmsg)(fd, message, flags);
}

int connect(int fd, const struct sockaddr *address, socklen_t size) {
    FAIL_WITH(decide_fd(CONNECT, fd));
    return REAL(connect)(fd, address, size);
}

int bind(int fd, const struct sockaddr *address, socklen_t size) {
    FAIL_WITH(decide_fd(BIND, fd));
    return REAL(bind)(fd, address, size);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    FAIL_WITH(decide_fd(ACCEPT, fd));
    return REAL(accept4)(fd, address, size, flags);
}

int socket(int domain, int type, int protocol) {
    FAIL_WITH(decide(SOCKET, "socket"));
    return REAL(socket)(domain, type, protocol);
}

int pipe2(int ends[2], int flags) {
    FAIL_WITH(decide(PIPE, "pipe"));
    return REAL(pipe2)(ends, flags);
}

pid_t fork(void) {
    FAIL_WITH(decide(FORK, "process"));
    pid_t pid = REAL(fork)();
    if (!pid && role == FORKSERVER) role = CELL;
    return pid;
}

pid_t vfork(void) { return fork(); } /* a wrapper's frame is gone when vfork's child returns; fork's is not */

int execve(const char *path, char *const arguments[], char *const environment[]) {
    FAIL_WITH(decide(EXEC, path));
    return REAL(execve)(path, arguments, environment);
}
