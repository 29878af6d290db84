#include "nemesis/nm_judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "nemesis/check.h"
#include "nemesis/nm_process.h"

bool nm_judge(const struct nm_history *h) {
    struct nm_report report = {.why = ""};
    uint64_t start = nm_now_ns();
    bool good = nm_check_log(h, &report);
    uint64_t middle = nm_now_ns();
    good = nm_check_search(h, &report) && good;
    fprintf(stderr,
            "  seed %" PRIu64 ": %" PRIu32 " operations, %" PRIu32 " in the log: %" PRIu64
            " answers, %" PRIu64 " reads and %" PRIu64 " states as in the model, %" PRIu64
            " refusals without the log, %.1f s; %" PRIu64 " searched in %" PRIu64
            " steps, %.1f s\n",
            h->seed, h->op_count, h->entry_count, report.answers, report.reads, report.digests,
            report.refusals, (double)(middle - start) / 1e9, report.searched, report.steps,
            (double)(nm_now_ns() - middle) / 1e9);
    if (!good) {
        nm_history_keep(h, report.why);
    }
    return good;
}

bool nm_judge_kept(void) {
    struct nm_history h;
    if (!nm_history_load(&h, getenv("TENURE_HISTORY"))) {
        return false;
    }
    bool good = nm_judge(&h);
    nm_history_free(&h);
    return good;
}

pid_t nm_judge_begin(const struct nm_history *h) {
    pid_t id = fork();
    TN_ASSERT(id >= 0);
    if (id == 0) {
        _exit(nm_judge(h) ? 0 : 1);
    }
    return id;
}

bool nm_judge_wait(pid_t *id) {
    int status = 0;
    bool good = *id == 0 ||
                (waitpid(*id, &status, 0) == *id && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    *id = 0;
    return good;
}
