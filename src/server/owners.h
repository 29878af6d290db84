/* The owners that serve requests, by pointer. A handler gets them with its request and includes the
 * headers of the owners that it uses; the others stay opaque to it. Only the files that start, stop and
 * tie the owners together see `struct server` (parts.h).
 *
 * One thread, the loop's, uses all of them. The pointers do not change while the loop runs, except
 * `supervisor`. */
#ifndef TN_SERVER_OWNERS_H
#define TN_SERVER_OWNERS_H

struct access;
struct engine;
struct schedule;
struct server;
struct server_backup;
struct server_buffers;
struct server_connections;
struct server_counters;
struct server_history;
struct server_jobs;
struct server_logins;
struct server_memory;
struct server_options;
struct server_pages;
struct server_role;
struct server_slots;
struct server_streams;
struct server_tls;
struct server_users;
struct supervisor;
struct ticks;
struct uv_loop_s;

struct server_owners {
    struct server *server; /* for functions that take the whole server; opaque to handlers */
    const struct server_options *options;
    struct uv_loop_s *loop;
    struct engine *engine;
    struct supervisor *supervisor; /* NULL: sensors are off, or run on another node */
    struct access *access;
    struct server_users *users;
    struct server_logins *logins;
    struct server_role *role;
    struct server_tls *tls;
    struct server_connections *connections;
    struct server_buffers *buffers;
    struct schedule *schedule;
    struct ticks *ticks;
    struct server_pages *pages;
    struct server_slots *slots;
    struct server_jobs *jobs;
    struct server_backup *backup;
    struct server_memory *memory;
    struct server_streams *streams;
    struct server_counters *counters;
    struct server_history *history;
};

#endif
