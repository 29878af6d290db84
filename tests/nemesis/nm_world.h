/* The pools that clients contend for, and an operation as words, as a command, and back.
 *
 * Operations belong to groups: a few values, the holders that want them, and the leases on them. No
 * operation touches two groups.
 *
 *   cells   a range of two values and a set of one, all permanent: nothing happens by itself, so that
 *           a cell is a small sequential object, and its operations can be judged without a log
 *   others  everything that time moves: leases that end, graces, cooldowns, sticky holders, scopes;
 *           every strategy; quotas */
#ifndef TESTS_NEMESIS_NM_WORLD_H
#define TESTS_NEMESIS_NM_WORLD_H

#include "kernel/command.h"
#include "nemesis/nm_history.h"

#define NM_CELLS 6u
#define NM_GROUPS 12u
#define NM_HOLDERS 4u
#define NM_POOLS 2u             /* pools of a group, at most */
#define NM_CELL_VALUES 3u       /* of a cell */
#define NM_RESERVE_CELL_S 3600u /* a reservation in a cell outlives the run */

struct nm_pool {
    const char *name;
    uint8_t size;
    bool set; /* a set; its resources are called x1, x2, ... */
};

bool nm_group_is_cell(uint32_t group);
bool nm_group_is_sticky(uint32_t group);
uint32_t nm_group_pools(uint32_t group);
const struct nm_pool *nm_pool_of(uint32_t group, uint32_t pool);

/* What makes the pools, word by word; NULL after the last one. */
const char *nm_setup(uint32_t index);

/* The request in RESP; returns its length. */
#define NM_REQUEST_MAX 512u
size_t nm_request_write(const struct nm_op *op, char out[NM_REQUEST_MAX]);
/* The same as a line. */
void nm_request_text(const struct nm_op *op, char *out, size_t capacity);
/* Words from a line. */
size_t nm_line_write(const char *line, char out[NM_REQUEST_MAX]);

/* The write as the log should have it, with these rights and this user; 0: it does not fit. */
uint32_t nm_command_encode(const struct nm_op *op, uint8_t rights, struct tn_bytes user, void *out,
                           size_t capacity);

/* The operation to which a logged command belongs, by its operation id; 0: none of ours. */
uint32_t nm_opid_parse(struct tn_bytes opid);

/* What answers name. False, or NM_NONE: nothing of this group. */
uint32_t nm_holder_parse(uint32_t group, struct tn_bytes text);
bool nm_value_parse(uint32_t group, struct tn_bytes pool, struct tn_bytes text,
                    struct nm_value *ret_value);
#define NM_HOLDER_TEXT 16u
void nm_holder_text(uint32_t group, uint32_t holder, char out[NM_HOLDER_TEXT]);

#endif
