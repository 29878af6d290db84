/* One GET for a health check, which looks only at the status of the answer. */
#ifndef TN_PROCESS_RUN_HEALTH_HTTP_H
#define TN_PROCESS_RUN_HEALTH_HTTP_H

#include <stdbool.h>
#include <uv.h>

#define RUN_HEALTH_HTTP_URL_MAX 1024u

struct run_health_http_hooks {
    void (*answered)(void *ctx, bool good, const char *why); /* at most once */
    void (*over)(void *ctx);                                 /* the last call */
};

/* The caller's memory, from begin to over; its own otherwise. */
struct run_health_http {
    struct run_health_http_hooks hooks;
    void *ctx;
    uv_loop_t *loop;
    uv_getaddrinfo_t resolve;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct addrinfo *found, *next; /* addresses of the host; the one to try next, NULL: none */
    bool resolving, retrying, ending;
    char host[256], port[8];
    char request[RUN_HEALTH_HTTP_URL_MAX + 512u];
    char answer[64];
    size_t answer_len;
};

/* `url` is http://HOST[:PORT][/PATH]. `over` is never called from inside. */
void run_health_http_begin(struct run_health_http *http, uv_loop_t *loop, const char *url,
                           struct run_health_http_hooks hooks, void *ctx);
/* Gives it up; `over` follows, later. */
void run_health_http_end(struct run_health_http *http);

#endif
