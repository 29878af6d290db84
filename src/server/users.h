/* Users that were added at run time, on their way from the log to access control.
 *
 * Invariants
 *   1. Whatever a client is told after a change of a user was acknowledged has been judged by that
 *      change: access control is brought up to date before answers leave and before each command.
 *   2. Nothing is copied or locked while no user changes: one atomic number is compared.
 *   3. Clients whose log-in has become void are closed before the loop waits again, with their
 *      subscriptions, streams and waiting requests.
 *
 * On the loop's thread. */
#ifndef TN_SERVER_USERS_H
#define TN_SERVER_USERS_H

#include <stdbool.h>
#include <stdint.h>

#define SERVER_USERS_HASHING_MAX 4u /* secrets hashed at the same time */

struct server_owners;

struct server_users {
    uint64_t lsn;     /* position of the last change that access control has seen */
    uint32_t hashing; /* secrets being hashed on worker threads */
    bool review;      /* clients must be checked */
};

/* Brings access control up to date. */
void server_users_look(struct server_owners *owners);
/* The users of the file have changed: takes over the users of the log again. */
void server_users_again(struct server_owners *owners);
/* Closes the clients of users that were removed, if there may be any. */
void server_users_review(struct server_owners *owners);

#endif
