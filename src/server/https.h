/* HTTP with TLS as the listeners see it: see https.c. */
#ifndef TN_SERVER_HTTPS_H
#define TN_SERVER_HTTPS_H

struct server_owners;
struct server_listener;

/* Accepts the client that waits at the listener. */
void server_https_accept(struct server_owners *owners, struct server_listener *listener);
/* See server_tls_judge. */
void server_https_judge(struct server_owners *owners);

#endif
