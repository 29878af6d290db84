/* The network between the nodes of a cluster and the members of etcd: a listener for each pair, and a
 * thread that carries bytes. A link can be cut in three ways.
 *
 *   HELD   nothing is carried either way; what waits arrives when the link is opened again, late
 *   LOST   the same, but what waits is lost, and the connections are reset
 *   MUTE   requests arrive, answers do not; the connections are reset in the end */
#ifndef TESTS_NEMESIS_RELAY_H
#define TESTS_NEMESIS_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#define NM_NODES 3u
#define NM_MEMBERS 3u

enum nm_link { NM_LINK_OPEN, NM_LINK_HELD, NM_LINK_LOST, NM_LINK_MUTE };

struct nm_relay;

/* To the members' ports on loopback. NULL: the listener or the thread could not be created. */
struct nm_relay *nm_relay_open(const unsigned targets[NM_MEMBERS]);
void nm_relay_close(struct nm_relay *relay);
uint16_t nm_relay_port(const struct nm_relay *relay, unsigned node, unsigned member);
void nm_relay_set(struct nm_relay *relay, unsigned node, unsigned member, enum nm_link link);

#endif
