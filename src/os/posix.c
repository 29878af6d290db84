/* The operating system as Linux gives it: files, directories, lock, clocks, randomness, memory.
 *
 * Every descriptor is close-on-exec. Interrupted and short reads and writes are continued here, so
 * that callers see all or an error. Only sync is never repeated: after a failed fdatasync the kernel
 * may have dropped the dirty pages, and a second call would claim a success that is none. */
#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

/* Memory that wants huge pages begins with ordinary ones: it may never be filled further, and then a huge
 * page for each of many tables would be most of the process. */
#define OS_HUGE_BYTES ((size_t)2 << 20)
#define OS_HUGE_FROM ((size_t)512 << 10)

static enum tn_status status_of(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return TN_NOSPACE;
    case ENOENT:
        return TN_NOTFOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return TN_DENIED;
    case EEXIST:
    case ENOTDIR:
        return TN_INVALID;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return TN_NOMEM;
    default:
        return TN_IO;
    }
}

static enum tn_status last_status(void) {
    return status_of(errno);
}

static int open_retry(const char *path, int flags) {
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Root may let the server read a secret through its group: Kubernetes mounts secrets this way. */
static bool is_private(const struct stat *st) {
    mode_t others = st->st_mode & (S_IRWXG | S_IRWXO);
    uid_t self = geteuid();
    return st->st_uid == self ? others == 0 : st->st_uid == 0 && (others & ~(mode_t)S_IRGRP) == 0;
}

/* Not blocking above and looking here: a pipe or a device of that name is refused, not waited for. */
static enum tn_status open_checked(const char *path, int flags, bool private, int *ret_fd) {
    int fd = open_retry(path, flags);
    if (fd < 0) {
        return last_status();
    }
    struct stat st;
    enum tn_status status = fstat(fd, &st) == 0 ? TN_OK : last_status();
    bool directory = (flags & O_DIRECTORY) != 0;
    if (status == TN_OK && !(directory ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode))) {
        status = TN_INVALID;
    }
    if (status == TN_OK && private && !is_private(&st)) {
        status = TN_DENIED;
    }
    if (status != TN_OK) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return TN_OK;
}

static enum tn_status posix_open(void *ctx, const char *path, unsigned flags, int *ret_file) {
    (void)ctx;
    int mode = (flags & OS_WRITE) != 0 ? O_RDWR : O_RDONLY;
    TN_ASSERT((flags & (OS_READ | OS_WRITE)) != 0);
    TN_ASSERT((flags & OS_WRITE) != 0 || (flags & (OS_CREATE | OS_TRUNCATE)) == 0);
    TN_ASSERT((flags & OS_DIRECTORY) == 0 || flags == (OS_READ | OS_DIRECTORY));
    if ((flags & OS_CREATE) != 0) {
        mode |= O_CREAT;
    }
    if ((flags & OS_EXCLUSIVE) != 0) {
        mode |= O_EXCL;
    }
    if ((flags & OS_TRUNCATE) != 0) {
        mode |= O_TRUNC;
    }
    if ((flags & OS_DIRECTORY) != 0) {
        mode |= O_DIRECTORY;
    }
    return open_checked(path, mode, (flags & OS_PRIVATE) != 0, ret_file);
}

static enum tn_status posix_close(void *ctx, int file) {
    (void)ctx;
    TN_ASSERT(file >= 0);
    /* A child that was forked meanwhile shares the lock of the open file, and would keep it. */
    (void)flock(file, LOCK_UN);
    /* On Linux the descriptor is closed even if close returns EINTR, so it is never repeated. */
    if (close(file) != 0 && errno != EINTR) {
        return last_status();
    }
    return TN_OK;
}

static enum tn_status posix_read_at(void *ctx, int file, void *out, size_t len, uint64_t offset,
                                    size_t *ret_len) {
    (void)ctx;
    TN_ASSERT(file >= 0 && offset <= (uint64_t)INT64_MAX - len);
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(file, (char *)out + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return last_status();
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *ret_len = done;
    return TN_OK;
}

static enum tn_status posix_write_at(void *ctx, int file, const void *bytes, size_t len,
                                     uint64_t offset) {
    (void)ctx;
    TN_ASSERT(file >= 0 && offset <= (uint64_t)INT64_MAX - len);
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(file, (const char *)bytes + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return last_status();
        }
        if (n == 0) {
            return TN_IO;
        }
        done += (size_t)n;
    }
    return TN_OK;
}

static enum tn_status posix_sync(void *ctx, int file) {
    (void)ctx;
    TN_ASSERT(file >= 0);
    /* For a directory fdatasync is not enough: a rename changes neither its size nor its blocks. Not
     * fstat to find out: since Linux 6.13 a look at a file's times makes the next write change them
     * in the inode, and every sync of the log would wait for the journal, too (a third slower). */
    int flags = fcntl(file, F_GETFL);
    if (flags < 0) {
        return last_status();
    }
    int rc = (flags & O_DIRECTORY) != 0 ? fsync(file) : fdatasync(file);
    return rc == 0 ? TN_OK : last_status();
}

static enum tn_status posix_size(void *ctx, int file, uint64_t *ret_bytes) {
    (void)ctx;
    struct stat st;
    if (fstat(file, &st) != 0) {
        return last_status();
    }
    *ret_bytes = (uint64_t)st.st_size;
    return TN_OK;
}

static enum tn_status posix_truncate(void *ctx, int file, uint64_t bytes) {
    (void)ctx;
    TN_ASSERT(file >= 0 && bytes <= INT64_MAX);
    int rc;
    do {
        rc = ftruncate(file, (off_t)bytes);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? TN_OK : last_status();
}

static enum tn_status posix_rename(void *ctx, const char *from, const char *to) {
    (void)ctx;
    return rename(from, to) == 0 ? TN_OK : last_status();
}

static enum tn_status posix_remove(void *ctx, const char *path) {
    (void)ctx;
    return unlink(path) == 0 ? TN_OK : last_status();
}

static enum tn_status posix_make_dir(void *ctx, const char *path) {
    (void)ctx;
    if (mkdir(path, 0700) == 0) {
        return TN_OK;
    }
    int error = errno;
    struct stat st;
    if (error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return TN_OK;
    }
    return status_of(error);
}

static enum tn_status posix_sync_dir(void *ctx, const char *path) {
    (void)ctx;
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return last_status();
    }
    enum tn_status status = fsync(fd) == 0 ? TN_OK : last_status();
    close(fd);
    return status;
}

static enum tn_status posix_list(void *ctx, const char *path, os_list_entry *entry,
                                 void *entry_ctx) {
    (void)ctx;
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return last_status();
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        enum tn_status status = last_status();
        close(fd);
        return status;
    }
    enum tn_status status = TN_OK;
    for (;;) {
        errno = 0;
        struct dirent *found = readdir(dir);
        if (found == NULL) {
            status = errno == 0 ? TN_OK : last_status();
            break;
        }
        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0) {
            entry(entry_ctx, found->d_name);
        }
    }
    closedir(dir);
    return status;
}

static enum tn_status posix_space_free(void *ctx, const char *path, uint64_t *ret_bytes) {
    (void)ctx;
    struct statvfs st;
    int rc;
    do {
        rc = statvfs(path, &st);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        return last_status();
    }
    *ret_bytes = (uint64_t)st.f_bavail * (uint64_t)st.f_frsize;
    return TN_OK;
}

/* The kernel reports it for a whole disk; the entry of a partition is a directory inside its
 * disk's. */
static enum tn_status posix_sector_bytes(void *ctx, const char *path, uint64_t *ret_bytes) {
    (void)ctx;
    static const char *const places[] = {"queue", "../queue"};
    struct stat st;
    if (stat(path, &st) != 0) {
        return last_status();
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "/sys/dev/block/%u:%u/%s/physical_block_size", major(st.st_dev),
                 minor(st.st_dev), places[i]);
        FILE *file = fopen(name, "re");
        char digits[24] = "";
        bool read = file != NULL && fgets(digits, sizeof digits, file) != NULL;
        if (file != NULL) {
            (void)fclose(file);
        }
        uint64_t bytes = read ? strtoull(digits, NULL, 10) : 0;
        if (bytes > 0) {
            *ret_bytes = bytes;
            return TN_OK;
        }
    }
    return TN_NOTFOUND;
}

/* flock belongs to the open file description, so that a second open by this very process is
 * refused too, and it ends with the process however that dies. */
static enum tn_status posix_lock(void *ctx, const char *path, int *ret_file) {
    (void)ctx;
    int fd;
    enum tn_status opened = open_checked(path, O_RDWR | O_CREAT, false, &fd);
    if (opened != TN_OK) {
        return opened;
    }
    int rc;
    do {
        rc = flock(fd, LOCK_EX | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        enum tn_status status = errno == EWOULDBLOCK ? TN_LOCKED : last_status();
        close(fd);
        return status;
    }
    *ret_file = fd;
    return TN_OK;
}

static uint64_t clock_read_ns(clockid_t clock) {
    struct timespec ts;
    int rc = clock_gettime(clock, &ts);
    TN_ASSERT(rc == 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t posix_clock_boot_ms(void *ctx) {
    (void)ctx;
    return clock_read_ns(CLOCK_BOOTTIME) / 1000000u;
}

static uint64_t posix_clock_boot_ns(void *ctx) {
    (void)ctx;
    return clock_read_ns(CLOCK_BOOTTIME);
}

static uint64_t posix_clock_wall_ms(void *ctx) {
    (void)ctx;
    return clock_read_ns(CLOCK_REALTIME) / 1000000u;
}

static enum tn_status posix_random(void *ctx, void *out, size_t len) {
    (void)ctx;
    size_t done = 0;
    while (done < len) {
        ssize_t n = getrandom((char *)out + done, len - done, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return last_status();
        }
        done += (size_t)n;
    }
    return TN_OK;
}

static void *memory_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The place is chosen so that the first huge page begins OS_HUGE_FROM behind the start. The hints: a
 * kernel without huge pages refuses them and nothing is lost. */
static void *memory_map_huge(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded = (bytes + page - 1) & ~(page - 1);
    uint8_t *all = memory_map(rounded + OS_HUGE_BYTES);
    if (all == NULL) {
        return NULL;
    }
    size_t past = ((uintptr_t)all + OS_HUGE_FROM) % OS_HUGE_BYTES;
    size_t before = past == 0 ? 0 : OS_HUGE_BYTES - past;
    uint8_t *memory = all + before;
    if (before > 0) {
        (void)munmap(all, before);
    }
    (void)munmap(memory + rounded, OS_HUGE_BYTES - before);
    (void)madvise(memory, OS_HUGE_FROM, MADV_NOHUGEPAGE);
    (void)madvise(memory + OS_HUGE_FROM, rounded - OS_HUGE_FROM, MADV_HUGEPAGE);
    return memory;
}

static enum tn_status posix_mem_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    bool huge = big && bytes >= OS_HUGE_FROM + OS_HUGE_BYTES;
    void *memory = huge ? memory_map_huge(bytes) : memory_map(bytes);
    if (memory == NULL) {
        return last_status();
    }
    *ret_memory = memory;
    return TN_OK;
}

static void posix_mem_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    int rc = munmap(memory, bytes);
    TN_ASSERT(rc == 0);
}

const struct os *os_posix(void) {
    static const struct os table = {
        .ctx = NULL,
        .open = posix_open,
        .close = posix_close,
        .read_at = posix_read_at,
        .write_at = posix_write_at,
        .sync = posix_sync,
        .size = posix_size,
        .truncate = posix_truncate,
        .rename = posix_rename,
        .remove = posix_remove,
        .make_dir = posix_make_dir,
        .sync_dir = posix_sync_dir,
        .list = posix_list,
        .space_free = posix_space_free,
        .sector_bytes = posix_sector_bytes,
        .lock = posix_lock,
        .clock_boot_ms = posix_clock_boot_ms,
        .clock_boot_ns = posix_clock_boot_ns,
        .clock_wall_ms = posix_clock_wall_ms,
        .random = posix_random,
        .mem_reserve = posix_mem_reserve,
        .mem_release = posix_mem_release,
    };
    return &table;
}
