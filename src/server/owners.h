/* The owners that serve requests, by pointer. Everything in the server that serves gets them and includes
 * the headers of the owners that it uses; the others stay opaque to it. Only server.c, which puts the owners
 * together and takes them apart, sees what they are made of.
 *
 * One thread, the loop's, uses all of them; slots.h, parked.h and refusal.h say what the engine's threads
 * use. The pointers do not change while the loop runs, except `supervisor`. */
#ifndef TN_SERVER_OWNERS_H
#define TN_SERVER_OWNERS_H

struct access;
struct engine;
struct http;
struct schedule;
struct server_answers;
struct server_backup;
struct server_buffers;
struct server_confirms;
struct server_connections;
struct server_counters;
struct server_daemon;
struct server_history;
struct server_jobs;
struct server_listeners;
struct server_logins;
struct server_memory;
struct server_metrics;
struct server_once;
struct server_options;
struct server_output;
struct server_pages;
struct server_parked;
struct server_refusals;
struct server_role;
struct server_slots;
struct server_stopping;
struct server_streams;
struct server_tls;
struct server_udp;
struct server_users;
struct server_writes;
struct supervisor;
struct ticks;
struct uv_loop_s;

struct server_owners {
    const struct server_options *options;
    struct uv_loop_s *loop;
    struct engine *engine;
    struct supervisor *supervisor; /* NULL: sensors are off, or run on another node */
    struct server_once *once;
    struct access *access;
    struct server_users *users;
    struct server_logins *logins;
    struct server_role *role;
    struct server_tls *tls;

    /* The way of a request through the server, in and out. */
    struct server_listeners *listeners;
    struct server_connections *connections;
    struct server_buffers *buffers;
    struct schedule *schedule;
    struct ticks *ticks;
    struct server_confirms *confirms;
    struct server_pages *pages;
    struct server_slots *slots;
    struct server_writes *writes;
    struct server_jobs *jobs;
    struct server_backup *backup;
    struct server_answers *answers;
    struct server_parked *parked;
    struct server_output *output;
    struct server_memory *memory;
    struct server_streams *streams;
    struct http *http;      /* NULL: off */
    struct server_udp *udp; /* the same */

    struct server_counters *counters;
    struct server_refusals *refusals;
    struct server_metrics *metrics;
    struct server_history *history;

    struct server_daemon *daemon;
    struct server_stopping *stop;
};

#endif
