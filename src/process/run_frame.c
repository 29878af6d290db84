/* Messages between the server and a guardian; no I/O. */
#include "process/run_frame.h"

#include "base/bytes.h"

const char *run_frame_step_name(enum run_frame_step step) {
    static const char *const names[RUN_FRAME_STEPS] = {
#define STEP_NAME(id, name) name,
        RUN_FRAME_STEP_TABLE(STEP_NAME)
#undef STEP_NAME
    };
    return (unsigned)step < RUN_FRAME_STEPS ? names[step] : "unknown";
}

/* ---- Start ---- */

static void text_write(struct tn_writer *w, const char *text) {
    tn_write_raw(w, text, strlen(text) + 1);
}

/* NULL: there is no text that ends. */
static const char *text_read(struct tn_reader *r) {
    size_t left = tn_reader_left(r);
    const void *end = left > 0 ? memchr(r->at + r->pos, 0, left) : NULL;
    if (end == NULL) {
        tn_reader_spoil(r);
        return NULL;
    }
    const char *text = (const char *)r->at + r->pos;
    r->pos = (size_t)((const uint8_t *)end - r->at) + 1;
    return text;
}

static void texts_read(struct tn_reader *r, const char **out, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        out[i] = text_read(r);
    }
    out[count] = NULL;
}

static void times_write(struct tn_writer *w, const struct run_frame_times *times) {
    tn_write64(w, times->term_at_ms);
    tn_write64(w, times->kill_at_ms);
}

static struct run_frame_times times_read(struct tn_reader *r) {
    struct run_frame_times times;
    times.term_at_ms = tn_read64(r);
    times.kill_at_ms = tn_read64(r);
    return times;
}

size_t run_frame_start_encode(const struct run_frame_start *start, uint8_t *out, size_t capacity) {
    struct tn_writer w = tn_writer_of(out, capacity);
    tn_write8(&w, RUN_FRAME_START);
    tn_write8(&w, start->own_proc);
    tn_write8(&w, start->is_job);
    tn_write8(&w, start->foreground);
    tn_write64(&w, start->ignored);
    for (uint32_t i = 0; i < SENSOR_LIMITS; i++) {
        tn_write64(&w, start->limits[i]);
    }
    tn_write64(&w, start->log_bytes);
    tn_write32(&w, start->log_files);
    tn_write64(&w, start->log_number);
    times_write(&w, &start->live);
    tn_write16(&w, (uint16_t)start->argc);
    tn_write16(&w, (uint16_t)start->envc);
    text_write(&w, start->cwd);
    text_write(&w, start->log_dir);
    text_write(&w, start->cgroup);
    text_write(&w, start->user);
    text_write(&w, start->group);
    text_write(&w, start->token_file);
    text_write(&w, start->rules_file);
    for (uint32_t i = 0; i < start->argc; i++) {
        text_write(&w, start->argv[i]);
    }
    for (uint32_t i = 0; i < start->envc; i++) {
        text_write(&w, start->env[i]);
    }
    return w.overflow ? 0 : w.len;
}

bool run_frame_start_decode(const uint8_t *bytes, size_t len, struct run_frame_start *ret_start) {
    struct tn_reader r = tn_reader_of(bytes, len);
    struct run_frame_start *start = ret_start;
    if (tn_read8(&r) != RUN_FRAME_START) {
        return false;
    }
    start->own_proc = tn_read8(&r) != 0;
    start->is_job = tn_read8(&r) != 0;
    start->foreground = tn_read8(&r) != 0;
    start->ignored = tn_read64(&r);
    for (uint32_t i = 0; i < SENSOR_LIMITS; i++) {
        start->limits[i] = tn_read64(&r);
    }
    start->log_bytes = tn_read64(&r);
    start->log_files = tn_read32(&r);
    start->log_number = tn_read64(&r);
    start->live = times_read(&r);
    start->argc = tn_read16(&r);
    start->envc = tn_read16(&r);
    if ((start->argc == 0) != start->is_job || start->argc > SENSOR_ARGS_MAX ||
        start->envc > RUN_FRAME_VARIABLES_MAX) {
        return false;
    }
    start->cwd = text_read(&r);
    start->log_dir = text_read(&r);
    start->cgroup = text_read(&r);
    start->user = text_read(&r);
    start->group = text_read(&r);
    start->token_file = text_read(&r);
    start->rules_file = text_read(&r);
    texts_read(&r, start->argv, start->argc);
    texts_read(&r, start->env, start->envc);
    return !r.bad && tn_reader_left(&r) == 0;
}

/* ---- Orders ---- */

size_t run_frame_order_encode(const struct run_frame_order *order,
                              uint8_t out[RUN_FRAME_SMALL_MAX]) {
    struct tn_writer w = tn_writer_of(out, RUN_FRAME_SMALL_MAX);
    tn_write8(&w, (uint8_t)order->kind);
    if (order->kind == RUN_FRAME_LIVE) {
        times_write(&w, &order->live);
    } else if (order->kind == RUN_FRAME_SIGNAL || order->kind == RUN_FRAME_PASS) {
        tn_write8(&w, (uint8_t)order->signal);
    }
    return w.len;
}

bool run_frame_order_decode(const uint8_t *bytes, size_t len, struct run_frame_order *ret_order) {
    struct tn_reader r = tn_reader_of(bytes, len);
    struct run_frame_order order = {.kind = (enum run_frame_kind)tn_read8(&r)};
    if (order.kind == RUN_FRAME_LIVE) {
        order.live = times_read(&r);
    } else if (order.kind == RUN_FRAME_SIGNAL || order.kind == RUN_FRAME_PASS) {
        order.signal = tn_read8(&r);
    } else if (order.kind != RUN_FRAME_TERM && order.kind != RUN_FRAME_KILL) {
        return false;
    }
    if (r.bad || tn_reader_left(&r) != 0) {
        return false;
    }
    *ret_order = order;
    return true;
}

/* ---- News ---- */

size_t run_frame_news_encode(const struct run_frame_news *news, uint8_t out[RUN_FRAME_SMALL_MAX]) {
    struct tn_writer w = tn_writer_of(out, RUN_FRAME_SMALL_MAX);
    tn_write8(&w, (uint8_t)news->kind);
    if (news->kind == RUN_FRAME_STARTED) {
        tn_write32(&w, news->pid);
        tn_write64(&w, news->start);
    } else if (news->kind == RUN_FRAME_FAILED) {
        tn_write32(&w, news->error);
        tn_write8(&w, (uint8_t)news->step);
    } else if (news->kind == RUN_FRAME_EXITED || news->kind == RUN_FRAME_STOPPED) {
        tn_write32(&w, (uint32_t)news->status);
    }
    return w.len;
}

bool run_frame_news_decode(const uint8_t *bytes, size_t len, struct run_frame_news *ret_news) {
    struct tn_reader r = tn_reader_of(bytes, len);
    struct run_frame_news news = {.kind = (enum run_frame_kind)tn_read8(&r)};
    if (news.kind == RUN_FRAME_STARTED) {
        news.pid = tn_read32(&r);
        news.start = tn_read64(&r);
    } else if (news.kind == RUN_FRAME_FAILED) {
        news.error = tn_read32(&r);
        news.step = tn_read8(&r);
    } else if (news.kind == RUN_FRAME_EXITED || news.kind == RUN_FRAME_STOPPED) {
        news.status = (int)tn_read32(&r);
    } else if (news.kind != RUN_FRAME_GONE) {
        return false;
    }
    if (r.bad || tn_reader_left(&r) != 0 || news.step >= RUN_FRAME_STEPS) {
        return false;
    }
    *ret_news = news;
    return true;
}
