/* What confirm.h promises. */
#include "server/confirm.h"

#include "base/assert.h"
#include "engine/engine.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/stop.h"

void server_confirms_init(struct server_confirms *confirms, struct server_owners *owners) {
    confirms->owners = owners;
    confirms->work.data = confirms;
    TAILQ_INIT(&confirms->waiting);
}

void server_confirm_arrived(struct server_client *client) {
    client->confirm_after = client->owners->confirms->asked;
}

/* ---- Asking ---- */

static void question_ask(uv_work_t *work) {
    struct server_confirms *confirms = work->data;
    confirms->found = engine_confirm(confirms->owners->engine);
}

static void question_answered(uv_work_t *work, int status) {
    struct server_confirms *confirms = work->data;
    TN_ASSERT(status == 0); /* libuv never cancels it */
    confirms->asks = false;
    confirms->answered = confirms->asked;
    confirms->good = confirms->found;
    schedule_run_queue(confirms->owners->schedule, &confirms->waiting, false);
    server_stop_check(confirms->owners);
}

static void question_begin(struct server_confirms *confirms) {
    if (!confirms->asks) {
        confirms->asks = true;
        confirms->asked++;
        (void)uv_queue_work(confirms->owners->loop, &confirms->work, question_ask,
                            question_answered);
    }
}

enum tn_result server_confirm(struct server_client *client) {
    struct server_confirms *confirms = client->owners->confirms;
    if (!engine_is_to_confirm(confirms->owners->engine)) {
        return TN_R_OK;
    }
    if (confirms->answered <= client->confirm_after) {
        question_begin(confirms);
        schedule_wait_in(&confirms->waiting, client);
        return TN_R_NOT_YET;
    }
    if (confirms->good) {
        return TN_R_OK;
    }
    client->confirm_after = confirms->asked;
    return TN_R_MASTERDOWN;
}
