/* resolve --> connect --> write, read the first line --> close
 *               |   ^
 *               v   | there is another address
 *              close
 *
 * A name such as localhost has several addresses, and the sensor may listen at any one of them. */
#include "process/run_health_http.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static void closed(uv_handle_t *handle) {
    struct run_health_http *http = handle->data;
    uv_freeaddrinfo(http->found);
    http->hooks.over(http->ctx);
}

static void end(struct run_health_http *http) {
    if (http->ending) {
        return;
    }
    http->ending = true;
    if (http->resolving) {
        (void)uv_cancel((uv_req_t *)&http->resolve); /* either way its callback comes */
    } else if (!http->retrying) {
        uv_close((uv_handle_t *)&http->tcp, closed);
    }
}

static void answer(struct run_health_http *http, bool good, const char *why) {
    if (!http->ending) {
        http->hooks.answered(http->ctx, good, why);
    }
    end(http);
}

static void failed(struct run_health_http *http, const char *what, int code) {
    char why[160];
    (void)snprintf(why, sizeof why, "%s: %s", what, uv_strerror(code));
    answer(http, false, why);
}

/* ---- The answer ---- */

/* "HTTP/1.1 200": 0 if it is not that. */
static int status_of(const char *line, size_t len) {
    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' ||
        !isdigit((unsigned char)line[9]) || !isdigit((unsigned char)line[10]) ||
        !isdigit((unsigned char)line[11])) {
        return 0;
    }
    return (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
    struct run_health_http *http = handle->data;
    (void)size;
    *buffer = uv_buf_init(http->answer + http->answer_len,
                          (unsigned)(sizeof http->answer - http->answer_len));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    struct run_health_http *http = stream->data;
    char why[64];
    (void)buffer;
    if (n < 0) {
        failed(http, "no answer", (int)n);
        return;
    }
    http->answer_len += (size_t)n;
    if (http->answer_len < 12) {
        return;
    }
    int status = status_of(http->answer, http->answer_len);
    (void)snprintf(why, sizeof why, status != 0 ? "the answer was %d" : "the answer is not HTTP",
                   status);
    answer(http, status >= 200 && status <= 299, why);
}

static void on_written(uv_write_t *write, int code) {
    struct run_health_http *http = write->data;
    if (code < 0) {
        failed(http, "cannot send the request", code);
    }
}

/* ---- Asking ---- */

static void connect_next(struct run_health_http *http);

static void on_retry(uv_handle_t *handle) {
    struct run_health_http *http = handle->data;
    http->retrying = false;
    if (http->ending) {
        closed(handle);
        return;
    }
    int code = uv_tcp_init(http->loop, &http->tcp);
    TN_ASSERT(code == 0);
    connect_next(http);
}

static void connect_failed(struct run_health_http *http, int code) {
    if (http->next == NULL) {
        failed(http, "cannot connect", code);
        return;
    }
    http->retrying = true;
    uv_close((uv_handle_t *)&http->tcp, on_retry);
}

static void on_connected(uv_connect_t *connect, int code) {
    struct run_health_http *http = connect->data;
    uv_buf_t buffer = uv_buf_init(http->request, (unsigned)strlen(http->request));
    if (http->ending) {
        return;
    }
    if (code != 0) {
        connect_failed(http, code);
        return;
    }
    code = uv_read_start((uv_stream_t *)&http->tcp, on_alloc, on_read);
    if (code == 0) {
        code = uv_write(&http->write, (uv_stream_t *)&http->tcp, &buffer, 1, on_written);
    }
    if (code != 0) {
        failed(http, "cannot send the request", code);
    }
}

static void connect_next(struct run_health_http *http) {
    const struct addrinfo *to = http->next;
    http->next = to->ai_next;
    int code = uv_tcp_connect(&http->connect, &http->tcp, to->ai_addr, on_connected);
    if (code != 0) {
        connect_failed(http, code);
    }
}

static void on_resolved(uv_getaddrinfo_t *resolve, int code, struct addrinfo *found) {
    struct run_health_http *http = resolve->data;
    http->resolving = false;
    http->found = http->next = found;
    if (uv_is_closing((uv_handle_t *)&http->tcp)) { /* the loop ends, and has not waited for us */
        uv_freeaddrinfo(found);
    } else if (http->ending) {
        uv_close((uv_handle_t *)&http->tcp, closed);
    } else if (code != 0) {
        failed(http, "cannot find the host", code);
    } else {
        connect_next(http);
    }
}

/* Host and port; the rest is the path. */
static const char *url_split(struct run_health_http *http, const char *url) {
    static const char scheme[] = "http://";
    const char *host = url + (strncmp(url, scheme, sizeof scheme - 1) == 0 ? sizeof scheme - 1 : 0);
    const char *path = host + strcspn(host, "/?");
    const char *end_of_host = host[0] == '[' ? host + strcspn(host, "]/") : host;
    const char *colon = end_of_host + strcspn(end_of_host, ":/?");
    bool bracket = host[0] == '[';
    int len = (int)(colon - host) - (bracket ? 2 : 0);
    (void)snprintf(http->host, sizeof http->host, "%.*s", len > 0 ? len : 0,
                   host + (bracket ? 1 : 0));
    (void)snprintf(http->port, sizeof http->port, "80");
    if (*colon == ':' && path > colon + 1) {
        (void)snprintf(http->port, sizeof http->port, "%.*s", (int)(path - colon - 1), colon + 1);
    }
    return path;
}

void run_health_http_begin(struct run_health_http *http, uv_loop_t *loop, const char *url,
                           struct run_health_http_hooks hooks, void *ctx) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    *http = (struct run_health_http){.hooks = hooks, .ctx = ctx, .loop = loop};
    const char *path = url_split(http, url);
    bool six = strchr(http->host, ':') != NULL;
    (void)snprintf(http->request, sizeof http->request,
                   "GET %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: tenure\r\n"
                   "Connection: close\r\n\r\n",
                   *path == '/' ? "" : "/", path, six ? "[" : "", http->host, six ? "]" : "",
                   http->port);
    int code = uv_tcp_init(loop, &http->tcp);
    TN_ASSERT(code == 0);
    http->tcp.data = http->connect.data = http->write.data = http->resolve.data = http;
    code = uv_getaddrinfo(loop, &http->resolve, on_resolved, http->host, http->port, &hints);
    http->resolving = code == 0;
    if (code != 0) {
        failed(http, "cannot find the host", code);
    }
}

void run_health_http_end(struct run_health_http *http) {
    end(http);
}
