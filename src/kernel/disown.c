/* disown: releases all leases of a holder in bounded steps.
 *
 * A job walks the holder's list of leases, from the newest to the oldest. New leases are refused
 * until it finishes (they would be inserted before the walk), and a lease that leaves the list
 * under the job's cursor advances the cursor, so the job sees every existing lease exactly once. It
 * skips leases in `revoking` and leases of internal pools, unless the supervisor names such a pool.
 * The state of the pool at that moment decides. */
#include "kernel/waiting.h"

bool kernel_lease_in_pool(const struct kernel *k, uint32_t lease, uint32_t pool) {
    const struct lease *l = lease_at(k, lease);
    uint32_t want = l->state == KERNEL_WAITING ? waiter_at(k, l->waiter)->first_want : TN_NONE;
    for (; want != TN_NONE; want = want_at(k, want)->next) {
        uint32_t of = want_at(k, want)->pool;
        if (of == pool || pool_at(k, of)->template == pool) {
            return true;
        }
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        uint32_t of = member_at(k, m)->pool;
        if (of == pool || pool_at(k, of)->template == pool) {
            return true;
        }
        if (l->pool != TN_NONE) {
            return false; /* all members are of one pool */
        }
    }
    return false;
}

bool kernel_job_blocks(const struct kernel *k, uint32_t holder, uint32_t pool) {
    uint32_t slot = name_at(k, holder)->job;
    if (slot == TN_NONE) {
        return false;
    }
    uint32_t of = job_at(k, slot)->pool;
    return of == TN_NONE || of == pool || pool_at(k, pool)->template == of;
}

void kernel_job_skip(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    uint32_t slot = name_at(k, l->holder)->job;
    if (slot != TN_NONE && job_at(k, slot)->cursor == lease) {
        job_mut(k, slot)->cursor = l->holder_next;
    }
}

static void job_end(struct kernel *k, uint32_t slot) {
    struct job j = *job_at(k, slot);
    struct root *root = root_mut(k);
    TN_ASSERT(root->job_head == slot && j.cursor == TN_NONE);
    TN_ASSERT(name_at(k, j.holder)->job == slot);
    kernel_event_holder(k, KERNEL_EVENT_HOLDER_DISOWNED, j.holder, j.released);
    root->job_head = j.next;
    if (root->job_head == TN_NONE) {
        root->job_tail = TN_NONE;
    }
    tn_table_give(&k->tables[TABLE_JOB], slot);
    name_mut(k, j.holder)->job = TN_NONE;
    kernel_name_drop(k, j.holder);
    if (j.pool != TN_NONE) {
        kernel_pool_unref(k, j.pool);
    }
}

static bool job_spares(const struct kernel *k, const struct job *j, uint32_t lease) {
    return kernel_lease_internal(k, lease) &&
           (j->pool == TN_NONE || !kernel_pool_option(k, j->pool, KERNEL_OPTION_INTERNAL));
}

static void job_step(struct kernel *k, uint32_t slot) {
    struct job *j = job_mut(k, slot);
    uint32_t lease = j->cursor;
    TN_ASSERT(root_at(k)->job_head == slot && lease_at(k, lease)->holder == j->holder);
    j->cursor = lease_at(k, lease)->holder_next;
    if ((j->pool != TN_NONE && !kernel_lease_in_pool(k, lease, j->pool)) ||
        job_spares(k, j, lease)) {
        return;
    }
    kernel_due_lease(k, lease);
    uint8_t state = lease_at(k, lease)->state;
    if (state == KERNEL_RESERVED || state == KERNEL_ACTIVE || state == KERNEL_OFFLINE ||
        state == KERNEL_WAITING) {
        kernel_lease_move(k, lease, CAUSE_DISOWN, 0);
        j->released++;
    }
}

/* The steps of a disown count as commands of the user who requested it. */
static void job_author(struct kernel *k, uint32_t slot) {
    const struct job *j = job_at(k, slot);
    k->author = (struct kernel_author){.actor = tn_bytes_of(j->actor, j->actor_len),
                                       .note = tn_bytes_of(j->note, j->note_len)};
}

static void jobs_continue(struct kernel *k, uint32_t *budget) {
    while (root_at(k)->job_head != TN_NONE) {
        uint32_t slot = root_at(k)->job_head;
        job_author(k, slot);
        while (*budget > 0 && job_at(k, slot)->cursor != TN_NONE) {
            job_step(k, slot);
            *budget -= 1;
            kernel_wait_charge(k, budget);
        }
        if (job_at(k, slot)->cursor != TN_NONE) {
            return;
        }
        job_end(k, slot);
    }
}

void kernel_job_run(struct kernel *k, uint32_t *budget) {
    struct kernel_author author = k->author;
    jobs_continue(k, budget);
    k->author = author;
}

static uint32_t text_keep(uint8_t *to, size_t room, struct tn_bytes text) {
    TN_ASSERT(text.len <= room);
    if (text.len > 0) {
        memcpy(to, text.at, text.len);
    }
    return text.len;
}

static uint32_t job_new(struct kernel *k, const struct kernel_command *c, uint32_t holder,
                        uint32_t pool) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_JOB]);
    TN_ASSERT(slot != TN_NONE);
    struct root *root = root_mut(k);
    struct job *j = job_mut(k, slot);
    j->holder = holder;
    j->pool = pool;
    j->cursor = name_at(k, holder)->first_lease;
    j->next = TN_NONE;
    j->lsn = root->lsn;
    j->actor_len = text_keep(j->actor, sizeof j->actor, c->user);
    j->note_len = text_keep(j->note, sizeof j->note, c->note);
    if (root->job_tail == TN_NONE) {
        root->job_head = slot;
    } else {
        job_mut(k, root->job_tail)->next = slot;
    }
    root->job_tail = slot;
    struct name *n = name_mut(k, holder);
    TN_ASSERT(n->job == TN_NONE); /* one at a time */
    n->job = slot;
    n->refs++;
    if (pool != TN_NONE) {
        pool_mut(k, pool)->refs++;
    }
    return slot;
}

void kernel_run_disown(struct kernel *k, const struct kernel_command *c,
                       struct kernel_result *result) {
    uint32_t pool = TN_NONE;
    if (c->holder.len == 0 || c->holder.len > KERNEL_HOLDER_MAX) {
        result->code = TN_R_BAD_NAME;
        return;
    }
    if (c->fields & KERNEL_F_POOL) {
        pool = kernel_pool_find(k, c->pool);
        if (pool == TN_NONE) {
            result->code = TN_R_POOL_NOTFOUND;
            return;
        }
        if (kernel_pool_option(k, pool, KERNEL_OPTION_INTERNAL) &&
            !(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
            result->code = TN_R_DENIED;
            return;
        }
    }
    uint32_t holder = kernel_index_text(k, TEXT_NAME, c->holder);
    if (holder == TN_NONE || name_at(k, holder)->first_lease == TN_NONE) {
        result->code = TN_R_NOOP;
        return;
    }
    if (name_at(k, holder)->job != TN_NONE || tn_table_room(&k->tables[TABLE_JOB]) == 0) {
        result->code = TN_R_BUSY;
        return;
    }
    uint32_t slot = job_new(k, c, holder, pool);
    uint64_t lsn = root_at(k)->lsn;
    uint32_t budget = (uint32_t)kernel_limit(k, KERNEL_LIMIT_TICK_STEP);
    if (root_at(k)->job_head == slot) {
        while (budget > 0 && job_at(k, slot)->cursor != TN_NONE) {
            job_step(k, slot);
            budget -= 1;
            kernel_wait_charge(k, &budget);
        }
        result->number = job_at(k, slot)->released;
        if (job_at(k, slot)->cursor == TN_NONE) {
            TN_ASSERT(job_at(k, slot)->lsn == lsn);
            job_end(k, slot);
        }
    }
}
