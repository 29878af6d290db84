/* The keys that tokens are signed with, on a tape: made, rotated, read again. A batch of the ledger is
 * a set of keys, in the order in which they were made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash/workload_state.h"
#include "token/token_key.h"

#define TTL_S 3600u

/* The set as one batch: the public keys in their order. */
static void keys_batch(const struct token_keys *keys, uint64_t number, uint8_t *bytes,
                       struct log_batch *ret_batch) {
    for (uint32_t i = 0; i < keys->count; i++) {
        memcpy(bytes + i * TOKEN_KEY_BYTES, keys->of[i].public_key, TOKEN_KEY_BYTES);
    }
    *ret_batch = (struct log_batch){
        .first_lsn = number, .count = 1, .payload = bytes, .len = keys->count * TOKEN_KEY_BYTES};
}

/* As the log does before the keys are made. */
static enum tn_status directory_make(const struct os *os) {
    enum tn_status status = os->make_dir(os->ctx, WORKLOAD_DIR);
    return status == TN_OK ? os->sync_dir(os->ctx, "/") : status;
}

/* ---- A run ---- */

/* The set that is being written is known when it has been, or when the next process reads it: then
 * the note from before is put right. */
static size_t keys_announce(struct workload *work) {
    return tape_note(work->tape, work->ledger.acked, ledger_tip(&work->ledger));
}

static void keys_made(struct workload *work, const struct token_keys *keys, size_t note) {
    uint8_t bytes[TOKEN_KEYS_MAX * TOKEN_KEY_BYTES];
    struct ledger *ledger = &work->ledger;
    struct log_batch batch;
    keys_batch(keys, ledger->tried + 1, bytes, &batch);
    const struct ledger_batch *tip = ledger_tip(ledger);
    bool known =
        tip != NULL && tip->batch.len == batch.len && memcmp(tip->payload, bytes, batch.len) == 0;
    if (!known) {
        ledger_try(ledger, &batch);
        ledger_settle(ledger, TN_OK);
        tape_note_tip(work->tape, note, ledger_tip(ledger));
    }
    (void)tape_note(work->tape, ledger->acked, ledger_tip(ledger));
}

/* One process: reads the keys, or makes the first, and rotates them until something fails. A set
 * whose writing failed may still be there, and then the next process says so. */
static bool keys_live(struct workload *work, struct tn_prng *prng, size_t *note) {
    const struct os *os = tape_os(work->tape);
    char reason[TOKEN_REASON_MAX];
    struct token_keys keys;
    if (directory_make(os) != TN_OK ||
        token_keys_open(&keys, os, WORKLOAD_DIR, TTL_S, 1000, reason) != TN_OK) {
        return false;
    }
    keys_made(work, &keys, *note);
    bool right = true;
    unsigned rotations = (unsigned)tn_prng_below(prng, 4);
    for (unsigned i = 0; i < rotations && right; i++) {
        struct token_keys next;
        *note = keys_announce(work);
        bool drop = tn_prng_below(prng, 4) == 0;
        right = token_keys_rotate(&keys, 2000 + i, drop, &next, reason) == TN_OK;
        if (right) {
            token_keys_close(&keys);
            keys = next;
            keys_made(work, &keys, *note);
        }
    }
    token_keys_close(&keys);
    return right;
}

void workload_keys_run(struct workload *work, struct tn_prng *prng) {
    unsigned lives = 3;
    unsigned faulty = workload_faulty(work->kind) ? (unsigned)tn_prng_below(prng, 2) : lives;
    size_t note = keys_announce(work);
    for (unsigned life = 0; life < lives; life++) {
        if (life == faulty) {
            tape_fail_call(work->tape, tape_calls(work->tape) + 1 + tn_prng_below(prng, 30), TN_IO);
        }
        bool failed = !keys_live(work, prng, &note);
        if (failed && !tape_failed(work->tape)) {
            workload_wrong(work, "the keys cannot be read or written");
        }
        tape_restart(work->tape);
        note = failed ? note : keys_announce(work);
    }
}

/* ---- A start ---- */

bool workload_keys_start(struct tape *tape, struct ledger *ledger,
                         struct workload_result *ret_result) {
    const struct os *os = tape_os(tape);
    char reason[TOKEN_REASON_MAX] = "";
    struct token_keys keys;
    uint8_t bytes[TOKEN_KEYS_MAX * TOKEN_KEY_BYTES];
    struct log_batch batch;
    enum tn_status status = directory_make(os);
    size_t note = tape_note(tape, ledger->acked, ledger_tip(ledger));
    if (status == TN_OK) {
        status = token_keys_open(&keys, os, WORKLOAD_DIR, TTL_S, 3000, reason);
    }
    if (status != TN_OK) {
        snprintf(ret_result->text, sizeof ret_result->text, "%.250s", reason);
        return false;
    }
    keys_batch(&keys, 1, bytes, &batch);
    token_keys_close(&keys);
    size_t found = ledger->tried;
    while (found > 0 && (ledger->batches[found - 1]->batch.len != batch.len ||
                         memcmp(ledger->batches[found - 1]->payload, bytes, batch.len) != 0)) {
        found -= 1;
    }
    ret_result->loaded = found;
    ret_result->hash = ledger_hash(ledger, found);
    if (found < ledger->acked) {
        snprintf(ret_result->text, sizeof ret_result->text,
                 "the keys are not the ones that were promised");
        return false;
    }
    ledger_cut(ledger, found);
    if (found == 0) { /* a new key, which is right: none was promised before */
        ledger_try(ledger, &batch);
        ledger_settle(ledger, TN_OK);
        tape_note_tip(tape, note, ledger_tip(ledger));
    }
    (void)tape_note(tape, ledger->acked, ledger_tip(ledger));
    return true;
}
