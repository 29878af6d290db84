/* Between nm_load.c and mishap.c. */
#ifndef TESTS_NEMESIS_MISHAP_H
#define TESTS_NEMESIS_MISHAP_H

#include "nemesis/nm_load.h"

/* If it is time for one: cuts a connection, makes a client deaf, stops the server, takes a snapshot. */
bool nm_mishap(struct nm_load *load);
/* Resumes a stopped server. */
void nm_mishap_continue(struct nm_load *load);

/* nm_load.c */
bool nm_load_fail(struct nm_load *load, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void nm_load_ask(struct nm_load *load, uint32_t client);
void nm_load_disconnect(struct nm_load *load, struct nm_client *client, bool abruptly);
bool nm_load_connect(struct nm_load *load, struct nm_client *client);
bool nm_load_pools(struct nm_load *load, struct nm_client *client);

#endif
