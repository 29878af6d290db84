/* What restored.h promises. */
#include "main/restored.h"

#include <stdio.h>
#include <string.h>

#include "server/log_line.h"

#define RESTORED_PATH 4096u
#define RESTORED_TEXT 127u

static bool path_of(const char *dir, const char *name, char out[RESTORED_PATH]) {
    return snprintf(out, RESTORED_PATH, "%s/%s", dir, name) < (int)RESTORED_PATH;
}

static enum tn_status text_read(const struct os *os, const char *dir, char out[RESTORED_TEXT + 1]) {
    char path[RESTORED_PATH];
    size_t len = 0;
    int file;
    if (!path_of(dir, "restored", path)) {
        return TN_NOTFOUND; /* so there is no log either */
    }
    enum tn_status status = os->open(os->ctx, path, OS_READ, &file);
    if (status == TN_OK) {
        status = os->read_at(os->ctx, file, out, RESTORED_TEXT, 0, &len);
        (void)os->close(os->ctx, file);
    }
    out[status == TN_OK ? len : 0] = '\0';
    return status;
}

bool restored_read(const struct os *os, const char *dir, struct restored *ret_restored,
                   struct log_error *error) {
    char text[RESTORED_TEXT + 1];
    enum tn_status status = text_read(os, dir, text);
    *ret_restored = (struct restored){0};
    if (status == TN_NOTFOUND) {
        return true;
    }
    if (status != TN_OK || strstr(text, "generation=") == NULL) {
        (void)snprintf(error->text, sizeof error->text, "%.300s/restored: %s", dir,
                       status != TN_OK ? tn_status_text(status) : "not a file of tenure restore");
        return false;
    }
    if (strstr(text, "generation=incomplete") != NULL) {
        (void)snprintf(error->text, sizeof error->text,
                       "%.300s: `tenure restore` was interrupted here; remove the directory and "
                       "restore again",
                       dir);
        return false;
    }
    *ret_restored = (struct restored){.marked = true,
                                      .pending = strstr(text, "generation=pending") != NULL,
                                      .sensors_off = strstr(text, "sensors=on") == NULL};
    return true;
}

/* Writes the file completely or not at all, and durably. */
static enum tn_status text_write(const struct os *os, const char *dir, const char *text) {
    char path[RESTORED_PATH], temporary[RESTORED_PATH];
    int file;
    if (!path_of(dir, "restored", path) || !path_of(dir, "restored.tmp", temporary)) {
        return TN_INVALID;
    }
    enum tn_status status = os->open(os->ctx, temporary, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->write_at(os->ctx, file, text, strlen(text), 0);
    status = status == TN_OK ? os->sync(os->ctx, file) : status;
    (void)os->close(os->ctx, file);
    status = status == TN_OK ? os->rename(os->ctx, temporary, path) : status;
    return status == TN_OK ? os->sync_dir(os->ctx, dir) : status;
}

static enum tn_status done(const struct os *os, const char *dir, struct restored *restored,
                           bool sensors) {
    char path[RESTORED_PATH];
    bool pending = restored->pending;
    restored->pending = false;
    restored->sensors_off = restored->sensors_off && !sensors;
    if (!restored->sensors_off) {
        restored->marked = false;
        return path_of(dir, "restored", path) ? os->remove(os->ctx, path) : TN_INVALID;
    }
    return pending ? text_write(os, dir, "generation=done\nsensors=off\n") : TN_OK;
}

void restored_finish(const struct os *os, const char *dir, struct restored *restored,
                     bool sensors) {
    if (!restored->marked) {
        return;
    }
    enum tn_status status = done(os, dir, restored, sensors);
    if (status != TN_OK) {
        server_log("restored_failed", "data=%s reason=\"cannot change the file restored: %s\"", dir,
                   tn_status_text(status));
    }
    if (restored->sensors_off) {
        server_log("sensors_off", "reason=\"the data was restored from a backup; start once with "
                                  "--sensors on when no sensor of the lost server runs\"");
    }
}
