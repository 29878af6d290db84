/* Internal: scopes with a policy of their own, as pool.c and scope.c share them. */
#ifndef TN_KERNEL_SCOPE_H
#define TN_KERNEL_SCOPE_H

#include "kernel/state.h"

#define KERNEL_OWN(option) ((uint64_t)1 << (option)) /* a bit of pool.own */

/* The template's policy with the scope's own options in place. */
struct kernel_policy kernel_scope_policy(const struct kernel_policy *template,
                                         const struct pool *scope);
/* Whether they agree in what all scopes of a template have in common. */
bool kernel_scope_may_have(const struct kernel_policy *template, const struct kernel_policy *scope);
/* From now on the scope has this policy, with these options (and those that it had) as its own. */
void kernel_scope_keep(struct kernel *k, uint32_t pool, const struct kernel_policy *policy,
                       uint64_t own);
/* Brings the template's figures of its kept scopes up to date. */
void kernel_scope_sum(struct kernel *k, uint32_t template);
/* POOL_CREATE of a scope, before or after its first use. */
void kernel_scope_create(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result);

/* pool.c */
uint64_t kernel_pool_fault(const struct kernel *k, const struct kernel_policy_patch *patch,
                           struct kernel_policy *policy);
/* Whether values are counted per holder. */
bool kernel_pool_tracks(const struct kernel_policy *policy);
void kernel_pool_refuse(const struct kernel *k, uint64_t fault, struct kernel_result *result);

#endif
