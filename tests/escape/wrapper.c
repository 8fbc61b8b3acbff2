/* Takes something away from the program that it then executes, as some kernels and containers do:
 *   wrapper WHAT[,WHAT...] PROGRAM [ARG]...
 * namespaces: no namespace can be made (EPERM).  mounts: they can, and nothing can be mounted in them (EPERM).
 * landlock: this kernel has none (ENOSYS).  filters: no seccomp (EINVAL).  taking: no descriptor of another process
 * (EPERM).  listening: seccomp, but no filter that asks (EINVAL). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter code[128];
static unsigned short length;

static void put(unsigned short op, unsigned k, unsigned char yes, unsigned char no) {
    code[length++] = (struct sock_filter){op, yes, no, k};
}
static void number(void) { put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0); }
static void refuse(long nr, int error) {
    number();
    put(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
    put(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
}
static void refuse_flags(long nr, unsigned flags, int error) {
    number();
    put(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3);
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args), 0, 0);
    put(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1);
    put(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    for (char *what = strtok(words[1], ","); what; what = strtok(NULL, ",")) {
        if (strcmp(what, "namespaces") == 0) {
            refuse_flags(SYS_clone, 0x7e020000, EPERM);
            refuse_flags(SYS_unshare, 0x7e020000, EPERM);
            refuse(435, ENOSYS);
        } else if (strcmp(what, "mounts") == 0) {
            refuse(SYS_mount, EPERM);
            refuse(428, EPERM);
            refuse(429, EPERM);
            refuse(430, EPERM);
            refuse(442, EPERM);
        } else if (strcmp(what, "landlock") == 0) {
            for (long nr = 444; nr <= 446; nr++) refuse(nr, ENOSYS);
        } else if (strcmp(what, "filters") == 0) {
            refuse(SYS_seccomp, EINVAL);
        } else if (strcmp(what, "taking") == 0) {
            refuse(438, EPERM);
        } else if (strcmp(what, "listening") == 0) {
            number();
            put(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3);
            put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]), 0, 0);
            put(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1);
            put(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL, 0, 0);
        } else return 2;
    }
    put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("wrapper");
        return 2;
    }
    execvp(words[2], words + 2);
    perror(words[2]);
    return 2;
}
