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

/* In the caller's memory. The caller may not change it between begin and `over`. */
struct run_health_http {
    struct run_health_http_hooks hooks;
    void *ctx;
    uv_loop_t *loop;
    uv_getaddrinfo_t resolve;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct addrinfo *found, *next; /* addresses of the host; the next one to try; NULL: none */
    bool resolving, retrying, ending;
    char host[256], port[8];
    char request[RUN_HEALTH_HTTP_URL_MAX + 512u];
    char answer[64];
    size_t answer_len;
};

/* `url` has the form http://HOST[:PORT][/PATH]. `over` is never called from inside. */
void run_health_http_begin(struct run_health_http *http, uv_loop_t *loop, const char *url,
                           struct run_health_http_hooks hooks, void *ctx);
/* Gives up; `over` is called later. */
void run_health_http_end(struct run_health_http *http);

#endif
