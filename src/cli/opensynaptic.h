/* Inside `tenure opensynaptic`: the files of OpenSynaptic's id allocator.
 *
 *   opensynaptic.c          the file in memory, the server, the pool
 *   opensynaptic_entry.c    an entry of id_allocation.json to a lease, or why it cannot be one
 *   opensynaptic_import.c   all entries to the server
 *   opensynaptic_export.c   a pool to the same file
 *   opensynaptic_policy.c   security_settings.id_lease of Config.json to a pool's options
 *
 * A file is read whole (OPENSYNAPTIC_FILE_MAX), judged once and walked through in place; nothing is
 * built from it, so that memory is the file's own size. */
#ifndef TN_CLI_OPENSYNAPTIC_H
#define TN_CLI_OPENSYNAPTIC_H

#include "cli/cli.h"
#include "cli/display.h"
#include "cli/resp_client.h"
#include "kernel/result.h"
#include "kernel/types.h"

#define OPENSYNAPTIC_FILE_MAX (2047u << 20) /* bytes; a million entries are about 250 MiB */
#define OPENSYNAPTIC_REASON_MAX 256u
#define OPENSYNAPTIC_NAMELESS "nameless:" /* then the id: the holder of a device without a name */

int opensynaptic_import(const struct cli_settings *settings, int argc, char **argv);
int opensynaptic_export(const struct cli_settings *settings, int argc, char **argv);
int opensynaptic_policy(const struct cli_settings *settings, int argc, char **argv);

/* ---- Files ---- */

/* One JSON object; the caller frees *ret_bytes. False: standard error says why not. */
bool opensynaptic_read(const char *path, uint8_t **ret_bytes, struct tn_bytes *ret_text);
/* The value of a key of an object; empty: it has none. The last counts, as in Python. */
struct tn_bytes opensynaptic_member(struct tn_bytes object, const char *key);
/* A whole number that is not negative, as JSON writes it. */
bool opensynaptic_number(struct tn_bytes value, uint64_t *ret_number);

/* ---- The server ---- */

struct opensynaptic_pool {
    const char *name;
    bool exists, sticky;
    struct kernel_identity identity;
    uint64_t lo, hi, cooling;
    uint64_t now_ms; /* the server's clock */
};

/* Connects and asks for the pool; that it is not there is an answer too. The exit code. */
int opensynaptic_connect(struct cli_client *client, const struct cli_settings *settings,
                         const char *name, struct opensynaptic_pool *ret_pool);
/* Whether it is there and sticky; else standard error says so, and *ret_code is the exit code. */
bool opensynaptic_pool_serves(const struct opensynaptic_pool *pool, int *ret_code);
/* One write; a refusal is told on standard error. The exit code. */
int opensynaptic_call(struct cli_client *client, const struct cli_settings *settings,
                      const struct tn_bytes *words, uint32_t count);

/* ---- Entries ---- */

struct opensynaptic_entry {
    struct tn_bytes id; /* its digits */
    uint32_t holder_len;
    char holder[KERNEL_HOLDER_MAX];
    struct cli_text meta;                                  /* compact; empty: none */
    uint64_t created_ms, seen_ms, deadline_ms, offline_ms; /* 0: not given */
    bool other_key; /* its device_key is not the key that its metadata gives */
    bool nameless;  /* it has neither a device_key nor metadata to derive one from */
    enum tn_result result;
    char reason[OPENSYNAPTIC_REASON_MAX];
};

/* Reuses what the entry has. `derive`: the holder comes from the metadata wherever that names the
 * device, whatever device_key says. False: `result` and `reason` say why not. */
bool opensynaptic_entry_read(struct opensynaptic_entry *entry, const struct opensynaptic_pool *pool,
                             bool derive, struct tn_bytes key, struct tn_bytes value);

#endif
