/* What the escape tests try from inside a run: each word is one attack, NAME or NAME:ARGUMENT:ARGUMENT, made in a
 * process of its own. One line each says how it went: "WORD open", "WORD refused ERRNO", "WORD killed SIGNAL". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char *arg[4];
static char keeper[16]; /* who started this program */
#define SH "/bin/sh"

static int fails(long ret) { return ret < 0; }
static long attempt_open(const char *path, int flags) { return open(path, flags | O_CLOEXEC | O_NONBLOCK, 0644); }

/* ---- files ---- */
static long a_read(void) {
    char byte;
    int fd = attempt_open(arg[0], O_RDONLY);
    if (fd < 0) return -1;
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        ssize_t n = read(fd, &byte, 1);
        if (n == 0) errno = ENODATA; /* an empty stand-in, which root may open */
        return n == 1 ? 0 : -1;
    }
    return 0;
}
static long a_list(void) { return attempt_open(arg[0], O_RDONLY | O_DIRECTORY); }
/* Opens only: what is tried on /proc and /sys must not change the machine. */
static long a_openw(void) { return attempt_open(arg[0], O_WRONLY); }
static long a_write(void) {
    int fd = attempt_open(arg[0], O_WRONLY | O_CREAT | O_APPEND);
    return fd < 0 ? -1 : write(fd, "planted\n", 8) == 8 ? 0 : -1;
}
static long a_truncate(void) { return truncate(arg[0], 0); }
static long a_opentrunc(void) { return attempt_open(arg[0], O_RDONLY | O_TRUNC); }
/* For neither reading nor writing: still a descriptor, whatever holds files by what they are opened for. */
static long a_neither(void) {
    unsigned long long how[3] = {O_ACCMODE, 0, 0};
    if (attempt_open(arg[0], O_ACCMODE) >= 0) return 0;
    return syscall(437 /* openat2 */, AT_FDCWD, arg[0], how, sizeof how);
}
static long a_link(void) { return link(arg[0], arg[1]); }
static long a_symlink(void) { return symlink(arg[0], arg[1]); }
static long a_rename(void) { return rename(arg[0], arg[1]); }
static long a_exchange(void) { return syscall(SYS_renameat2, AT_FDCWD, arg[0], AT_FDCWD, arg[1], 2); }
static long a_unlink(void) { return unlink(arg[0]); }
static long a_mkdir(void) { return mkdir(arg[0], 0755); }
static long a_chmod(void) { return chmod(arg[0], 0777); }
static long a_utime(void) { return utimensat(AT_FDCWD, arg[0], NULL, 0); }
static long a_mknod(void) { return mknod(arg[0], S_IFCHR | 0600, makedev(1, 3)); }
static long a_writevia(void) { /* a link of our own that leads out */
    unlink(arg[1]);
    if (symlink(arg[0], arg[1])) return -1;
    int fd = attempt_open(arg[1], O_WRONLY | O_APPEND);
    return fd < 0 ? -1 : write(fd, "planted\n", 8) == 8 ? 0 : -1;
}
static long a_handle(void) {
    struct { struct file_handle h; char room[128]; } f = {.h.handle_bytes = 128};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, arg[0], &f.h, &mount_id, 0)) return -1;
    int root = attempt_open("/", O_RDONLY | O_DIRECTORY);
    return open_by_handle_at(root, &f.h, O_RDONLY);
}
static long a_descriptors(void) { /* any descriptor above 2 that is open came from somebody else */
    for (int fd = 3; fd < 4096; fd++)
        if (fd != atoi(arg[3]) && fcntl(fd, F_GETFD) >= 0) return 0;
    errno = EBADF;
    return -1;
}
static long a_stdoutagain(void) { return attempt_open("/dev/stdout", O_WRONLY); }

/* ---- execution ---- */
static char *shell[] = {"sh", "-c", "exit 0", NULL};
static char *none[] = {NULL};
static long a_exec(void) { return execve(arg[0], shell, none); }
static long a_execat(void) { return syscall(SYS_execveat, attempt_open(arg[0], O_PATH), "", shell, none, AT_EMPTY_PATH); }
static long a_execscript(void) { char *words[] = {arg[0], NULL}; return execve(arg[0], words, none); }
static long a_loader(void) {
    char *words[] = {"ld.so", SH, "-c", "exit 0", NULL};
    return execve(arg[0], words, none);
}
static long a_preload(void) {
    char *words[] = {"ld.so", "--preload", arg[1], SH, "-c", "exit 0", NULL};
    return execve(arg[0], words, none);
}
static long copy_to(int to) {
    char buffer[65536];
    int from = attempt_open(arg[0], O_RDONLY);
    if (from < 0 || to < 0) return -1;
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;)
        if (write(to, buffer, n) != n) return -1;
    close(from);
    return 0;
}
static long a_memfd(void) {
    int fd = syscall(SYS_memfd_create, "x", 0);
    if (copy_to(fd)) return -1;
    syscall(SYS_execveat, fd, "", shell, none, AT_EMPTY_PATH);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return execve(path, shell, none);
}
static long a_copyexec(void) {
    int fd = open(arg[1], O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (copy_to(fd)) return -1;
    fchmod(fd, 0755);
    close(fd);
    return execve(arg[1], shell, none);
}
static long a_linkexec(void) {
    unlink(arg[1]);
    if (link(arg[0], arg[1])) return -1;
    return execve(arg[1], shell, none);
}

/* ---- network ---- */
static struct sockaddr_in inet(void) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(arg[0])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
static long to_inet(int type, int protocol) {
    struct sockaddr_in a = inet();
    int fd = socket(AF_INET, type, protocol);
    return fd < 0 ? -1 : connect(fd, (void *)&a, sizeof a);
}
static long a_tcp(void) { return to_inet(SOCK_STREAM, 0); }
static long a_mptcp(void) { return to_inet(SOCK_STREAM, 262); }
static long a_udp(void) {
    struct sockaddr_in a = inet();
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return fd < 0 ? -1 : sendto(fd, "x", 1, 0, (void *)&a, sizeof a);
}
static long a_fastopen(void) {
    struct sockaddr_in a = inet();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : sendto(fd, "x", 1, MSG_FASTOPEN, (void *)&a, sizeof a);
}
static long a_tcp6(void) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    return fd < 0 ? -1 : bind(fd, (void *)&a, sizeof a);
}
static long a_listen(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : listen(fd, 1);
}
static long a_bind(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : bind(fd, (void *)&a, sizeof a);
}
static long a_raw(void) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static long a_packet(void) { return socket(AF_PACKET, SOCK_RAW, htons(3)); }
static long a_netlink(void) { return socket(AF_NETLINK, SOCK_RAW, 0); }
static long a_vsock(void) { return socket(AF_VSOCK, SOCK_STREAM, 0); }
static long a_alg(void) { return socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0); }
static socklen_t unix_name(struct sockaddr_un *a, int abstract) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    strncpy(a->sun_path + abstract, arg[0], sizeof a->sun_path - 2);
    return offsetof(struct sockaddr_un, sun_path) + abstract + strlen(arg[0]);
}
static long to_unix(int type, int abstract) {
    struct sockaddr_un a;
    socklen_t length = unix_name(&a, abstract);
    int fd = socket(AF_UNIX, type, 0);
    return fd < 0 ? -1 : connect(fd, (void *)&a, length);
}
static long a_unix(void) { return to_unix(SOCK_STREAM, 0); }
static long a_abstract(void) { return to_unix(SOCK_STREAM, 1); }
static long a_unixdgram(void) {
    struct sockaddr_un a;
    socklen_t length = unix_name(&a, 0);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    return fd < 0 ? -1 : sendto(fd, "x", 1, 0, (void *)&a, length);
}
static long pair_to(int type, int how) {
    struct sockaddr_un a;
    socklen_t length = unix_name(&a, 0);
    int pair[2];
    if (socketpair(AF_UNIX, type, 0, pair)) return -1;
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_name = &a, .msg_namelen = length, .msg_iov = &v, .msg_iovlen = 1};
    struct mmsghdr mm = {.msg_hdr = m};
    if (how == 0) return sendto(pair[0], "x", 1, 0, (void *)&a, length);
    if (how == 1) return sendmsg(pair[0], &m, 0);
    if (how == 2) return sendmmsg(pair[0], &mm, 1, 0);
    struct sockaddr off = {.sa_family = AF_UNSPEC};
    connect(pair[0], &off, sizeof off);
    return connect(pair[0], (void *)&a, length);
}
static long a_pairsendto(void) { return pair_to(SOCK_DGRAM, 0); }
static long a_pairsendmsg(void) { return pair_to(SOCK_DGRAM, 1); }
static long a_pairsendmmsg(void) { return pair_to(SOCK_DGRAM, 2); }
static long a_pairconnect(void) { return pair_to(SOCK_DGRAM, 3); }
static long a_pairraw(void) { return pair_to(SOCK_RAW, 1); }
/* Two threads write one name over the other while a third connects: LISTED, OTHER, how often. */
static struct sockaddr_un racing[3];
static volatile int raced;
static void *race(void *unused) {
    for (int i = 0; !raced; i = !i) {
        memcpy(racing[2].sun_path, racing[i].sun_path, sizeof racing[2].sun_path);
        for (volatile int wait = 0; wait < 1000; wait++) {}
    }
    return unused;
}
static long a_unixrace(void) {
    pthread_t threads[2];
    int reached = 0;
    alarm(130);
    for (int i = 0; i < 2; i++) {
        racing[i] = (struct sockaddr_un){.sun_family = AF_UNIX};
        strncpy(racing[i].sun_path, arg[i], sizeof racing[i].sun_path - 1);
    }
    racing[2] = racing[0];
    for (int i = 0; i < 2; i++) if (pthread_create(&threads[i], NULL, race, NULL)) return -1;
    for (int i = 0, left = atoi(arg[2]); i < left; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (fd < 0) return -1;
        reached += connect(fd, (void *)&racing[2], sizeof racing[2]) == 0;
        close(fd);
    }
    raced = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    errno = ECONNREFUSED;
    return reached ? 0 : -1;
}
static long a_uring(void) { char params[256] = {0}; return syscall(425, 4, params); }
#ifdef __x86_64__
static long int80(long nr, long b, long c, long d) {
    long ret;
    __asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(b), "c"(c), "d"(d) : "memory", "r8", "r9", "r10", "r11");
    if (ret < 0) { errno = -ret; return -1; }
    return ret;
}
static long a_int80(void) { return int80(20 /* getpid */, 0, 0, 0); }
static long a_int80socket(void) { return int80(359 /* socket */, AF_INET, SOCK_STREAM, 0); }
static long a_x32(void) { return syscall(0x40000000 | SYS_getpid); }
static long a_x32socket(void) { return syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0); }
#endif

/* ---- system calls ---- */
static long a_traceme(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
static long a_vmread(void) {
    char from = 1, to;
    struct iovec l = {&to, 1}, r = {&from, 1};
    return process_vm_readv(getpid(), &l, 1, &r, 1, 0);
}
static long a_bpf(void) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr);
}
static long a_perf(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};
    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
static long a_keyctl(void) { return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1); }
static long a_addkey(void) { return syscall(SYS_add_key, "user", "guardexec-test", "x", 1L, KEY_SPEC_PROCESS_KEYRING); }
static long a_userfault(void) { return syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* USER_MODE_ONLY */); }
static long a_mount(void) { return unshare(CLONE_NEWNS) ? -1 : mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL); }
static long a_usermount(void) {
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) ? -1 : mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}
static long a_unshareuser(void) { return unshare(CLONE_NEWUSER); }
static long a_unsharenet(void) { return unshare(CLONE_NEWUSER | CLONE_NEWNET); }
static long a_cloneuser(void) {
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return pid;
}
static long a_clone3user(void) {
    unsigned long long args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long pid = syscall(435, args, sizeof args);
    if (pid == 0) _exit(0);
    return pid;
}
static long a_setns(void) {
    int fd = attempt_open("/proc/self/ns/uts", O_RDONLY);
    return fd < 0 ? -1 : setns(fd, CLONE_NEWUTS);
}
static long a_opentree(void) { return syscall(428, AT_FDCWD, "/", 1 /* CLONE */); }
static long a_fsopen(void) { return syscall(430, "tmpfs", 0); }
static long a_chroot(void) { return chroot("/"); }
static long a_syslog(void) { return syscall(SYS_syslog, 10, NULL, 0); }
static long a_personality(void) { return syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */); }
static long a_fanotify(void) { return syscall(SYS_fanotify_init, 0x200 /* REPORT_FID */, 0); }
static long a_pidfdgetfd(void) { return syscall(438, syscall(434, getpid(), 0), 0, 0); }
static long a_tiocsti(void) {
    /* On no terminal the kernel itself says ENOTTY: then nothing was refused. */
    if (ioctl(0, TIOCSTI, "x") == 0) return 0;
    return errno == ENOTTY ? 0 : -1;
}
static long a_tioclinux(void) { return ioctl(0, TIOCLINUX, "\7") == 0 || errno == ENOTTY ? 0 : -1; }
static long a_deathsignal(void) { return prctl(PR_SET_PDEATHSIG, 0); }
static long a_shm(void) {
    long id = syscall(SYS_shmget, 0L /* IPC_PRIVATE */, 4096, 0600);
    return id < 0 ? -1 : syscall(SYS_shmctl, id, 0 /* IPC_RMID */, NULL);
}
static long a_capability(void) { /* any capability to use, to hand on, or to get back */
    struct { unsigned version; int pid; } head = {0x20080522, 0};
    struct { unsigned effective, permitted, inheritable; } sets[2] = {{0}};
    if (syscall(SYS_capget, &head, sets)) return 0;
    unsigned any = 0;
    for (int i = 0; i < 2; i++) any |= sets[i].effective | sets[i].permitted | sets[i].inheritable;
    for (int i = 0; i < 64; i++) any |= prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1;
    errno = EPERM;
    return any ? 0 : -1;
}
static long a_groups(void) { /* supplementary groups, or a gid that is not the uid's own */
    gid_t list[64];
    int n = getgroups(64, list);
    errno = EPERM;
    return n > 0 ? 0 : -1;
}
static long a_setuid0(void) { return setresuid(0, 0, 0); }

/* ---- against another process ---- */
static long victim(void) { return arg[0] ? atol(arg[0]) : getppid(); }
static long a_kill(void) { return kill(victim(), SIGURG); }
static long a_stop(void) { return kill(victim(), SIGSTOP); }
static long a_tgkill(void) { return syscall(SYS_tgkill, victim(), victim(), SIGURG); }
static long a_sigqueue(void) { return sigqueue(victim(), SIGURG, (union sigval){0}); }
static long a_pidfd(void) {
    int fd = syscall(434, victim(), 0);
    return fd < 0 ? -1 : syscall(424, fd, SIGURG, NULL, 0);
}
static long a_sigio(void) { /* a deadly signal without a kill: as the owner of a descriptor; no call fails, so look at the victim */
    int pair[2];
    if (pipe(pair)) return -1;
    if (fcntl(pair[0], F_SETSIG, SIGKILL) || fcntl(pair[0], F_SETOWN, victim())) return -1;
    if (fcntl(pair[0], F_SETFL, O_ASYNC) || write(pair[1], "x", 1) != 1) return -1;
    usleep(50000);
    return 0;
}
static long a_attach(void) { return ptrace(PTRACE_SEIZE, victim(), 0, 0); }
static long a_vmvictim(void) {
    char to;
    struct iovec l = {&to, 1}, r = {(void *)arg, 1};
    long ret = process_vm_readv(victim(), &l, 1, &r, 1, 0);
    return ret < 0 && errno == EFAULT ? 0 : ret;
}
static long a_prlimit(void) {
    struct rlimit limit; /* the same limit again: nothing changes, and yet it is the call that could kill */
    if (prlimit(victim(), RLIMIT_CPU, NULL, &limit)) limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    return prlimit(victim(), RLIMIT_CPU, &limit, NULL);
}
static long a_nice(void) { return setpriority(PRIO_PROCESS, victim(), 19); }
static long a_niceuser(void) { return setpriority(PRIO_USER, getuid(), 19); }
static long a_nicegroup(void) { return setpriority(PRIO_PGRP, victim(), 19); }
static long a_idle(void) { struct sched_param p = {0}; return sched_setscheduler(victim(), SCHED_IDLE, &p); }
static long a_affinity(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return sched_setaffinity(victim(), sizeof set, &set);
}
static long a_ioprio(void) { return syscall(SYS_ioprio_set, 1, victim(), 3 << 13); }
static long a_procof(void) { /* a file in the victim's /proc directory */
    char path[128];
    snprintf(path, sizeof path, "/proc/%ld/%s", victim(), arg[1]);
    int fd = attempt_open(path, O_RDONLY);
    char byte;
    if (fd < 0) return -1;
    ssize_t n = read(fd, &byte, 1);
    if (n == 0) { errno = ENODATA; return -1; }
    return n < 0 && errno != EISDIR ? -1 : 0;
}
static long a_oom(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/oom_score_adj", victim());
    return attempt_open(path, O_WRONLY);
}

#define A(name) {#name, a_##name}
static const struct { const char *name; long (*run)(void); } attacks[] = {
    A(read), A(list), A(openw), A(write), A(truncate), A(opentrunc), A(neither), A(link), A(symlink), A(rename), A(exchange), A(unlink),
    A(mkdir), A(chmod), A(utime), A(mknod), A(writevia), A(handle), A(descriptors), A(stdoutagain),
    A(exec), A(execat), A(execscript), A(loader), A(preload), A(memfd), A(copyexec), A(linkexec),
    A(tcp), A(mptcp), A(udp), A(fastopen), A(tcp6), A(listen), A(bind), A(raw), A(packet), A(netlink), A(vsock), A(alg),
    A(unix), A(abstract), A(unixdgram), A(pairsendto), A(pairsendmsg), A(pairsendmmsg), A(pairconnect), A(pairraw),
    A(unixrace), A(uring),
#ifdef __x86_64__
    A(int80), A(int80socket), A(x32), A(x32socket),
#endif
    A(traceme), A(vmread), A(bpf), A(perf), A(keyctl), A(addkey), A(userfault), A(mount), A(usermount), A(unshareuser),
    A(unsharenet), A(cloneuser), A(clone3user), A(setns), A(opentree), A(fsopen), A(chroot), A(syslog), A(personality),
    A(fanotify), A(pidfdgetfd), A(tiocsti), A(tioclinux), A(deathsignal), A(shm), A(capability), A(groups), A(setuid0),
    A(kill), A(stop), A(tgkill), A(sigqueue), A(pidfd), A(sigio), A(attach), A(vmvictim), A(prlimit), A(nice), A(niceuser),
    A(nicegroup), A(idle), A(affinity), A(ioprio), A(procof), A(oom),
};

static void one(char *word) {
    char copy[8192], note[16];
    snprintf(copy, sizeof copy, "%s", word);
    char *name = strtok(copy, ":");
    for (int i = 0; i < 3; i++) arg[i] = strtok(NULL, ":");
    int report[2], status, code = 0;
    if (pipe2(report, O_CLOEXEC)) { printf("%s broken\n", word); return; }
    snprintf(note, sizeof note, "%d", report[1]);
    arg[3] = note;
    pid_t pid = fork();
    if (pid < 0) { printf("%s broken %s\n", word, strerrorname_np(errno)); return; }
    if (pid == 0) {
        alarm(10);
        for (int i = 0; i < 2; i++) if (arg[i] && strcmp(arg[i], "KEEPER") == 0) arg[i] = keeper;
        close(report[0]);
        for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
            if (strcmp(attacks[i].name, name) == 0) {
                errno = 0;
                int failed = fails(attacks[i].run()) ? errno : 0;
                if (write(report[1], &failed, sizeof failed) < 0) _exit(9);
                _exit(0);
            }
        _exit(99);
    }
    close(report[1]);
    ssize_t n = read(report[0], &code, sizeof code);
    close(report[0]);
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) printf("%s killed SIG%s\n", word, sigabbrev_np(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 99) printf("%s unknown\n", word);
    else if (n == sizeof code && code) printf("%s refused %s\n", word, strerrorname_np(code));
    else if (WEXITSTATUS(status)) printf("%s ended %d\n", word, WEXITSTATUS(status));
    else printf("%s open\n", word);
}

int main(int count, char **words) {
    snprintf(keeper, sizeof keeper, "%d", getppid());
#ifdef __x86_64__
    if (count > 1 && strcmp(words[1], "--die-by-int80") == 0) return a_int80() < 0;
#endif
    /* As a "shell" that another copy of this program started. */
    if (count > 1 && strcmp(words[1], "-c") == 0) return 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 1; i < count; i++) one(words[i]);
    return 0;
}
