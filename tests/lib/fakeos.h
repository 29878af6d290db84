/* An operating system in memory that forgets, fails and tears like a real one, on demand.
 *
 * It gives a `struct os` for the code under test and these calls for the test. Everything it decides
 * comes from its seed, so a failure repeats.
 *
 * What it believes about disks
 * - A file has two contents: the cached one, which reads see, and the durable one, which survives a
 *   power cut. A write dirties whole 512-byte sectors of the cached one; sync makes the dirty
 *   sectors durable. At a power cut each dirty sector is kept, lost or garbled by itself.
 * - A sync that fails makes some dirty sectors durable and calls all of them clean, as Linux does:
 *   reads still see the rest, no later sync will write it.
 * - Creating, renaming and removing files becomes durable at sync_dir of the directory. At a power
 *   cut what was not synced is kept or lost, either a first part of it in order (as a journal
 *   would) or any selection. A rename itself is atomic. A directory that was not synced into its
 *   parent may be lost with everything in it.
 * - A sync_dir that fails makes some of that durable and forgets the rest, as sync does: the names
 *   are still seen, no later sync_dir will write them. (Only for files: an existing directory
 *   cannot be created again.)
 * - A call that fails may still have done part of its work.
 *
 * Life of a machine
 *
 *     running --fakeos_cut_call--> cut: every call fails --fakeos_reboot--> running, cache lost
 *        |                                               --fakeos_restart-> running, cache kept
 *        +--fakeos_reboot / fakeos_restart at any time (open handles and locks are gone)
 *
 * Calls are counted from 1: everything that can fail counts (not clocks, not memory). Safe to call
 * from several threads; but which call gets which number is then up to the scheduler. */
#ifndef TESTS_LIB_FAKEOS_H
#define TESTS_LIB_FAKEOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"

#define FAKEOS_SECTOR 512

struct fakeos;

struct fakeos *fakeos_new(uint64_t seed);
/* Copies the files, durable and cached, with no handle open; further decisions come from `seed`. */
struct fakeos *fakeos_copy(struct fakeos *fake, uint64_t seed);
void fakeos_free(struct fakeos *fake);

/* The table for the code under test; lives as long as the fake. */
const struct os *fakeos_table(struct fakeos *fake);

/* -- faults ------------------------------------------------------------------------------------- */

/* The number of calls so far. */
uint64_t fakeos_calls(struct fakeos *fake);
/* Makes the call with this number fail with this status; 0 cancels that. */
void fakeos_fail_call(struct fakeos *fake, uint64_t call, enum tn_status status);
/* Refuses the n-th reservation of memory from now on; 0: none. */
void fakeos_fail_memory(struct fakeos *fake, uint64_t n);
/* The number of reservations so far. */
uint64_t fakeos_reservations(struct fakeos *fake);
/* The power fails during the call with this number: it and all later ones fail. */
void fakeos_cut_call(struct fakeos *fake, uint64_t call);
bool fakeos_is_cut(struct fakeos *fake);
/* Name of the table's entry that the last planned fault hit; "" if no fault has. */
const char *fakeos_fault_name(struct fakeos *fake);

/* The process died, the machine did not: handles and locks are gone, all writes are intact. */
void fakeos_restart(struct fakeos *fake);
/* The machine lost power and runs again: only durable data is certain to be intact. */
void fakeos_reboot(struct fakeos *fake);

/* Room for file contents in bytes; writes that need more get TN_NOSPACE. Unlimited at first. */
void fakeos_space_set(struct fakeos *fake, uint64_t bytes);
uint64_t fakeos_space_used(struct fakeos *fake);
/* Makes the device write this many bytes at once, and report that; it may lose all of them in a
 * power cut. */
void fakeos_physical_set(struct fakeos *fake, uint64_t bytes);

/* -- clocks ------------------------------------------------------------------------------------- */

/* Both clocks start at a fixed time and stand still until moved. */
/* Moves the boot clock and the wall clock. */
void fakeos_clock_advance(struct fakeos *fake, uint64_t ms);
void fakeos_clock_wall_set(struct fakeos *fake, uint64_t ms); /* as if someone set the wall clock */

/* -- looking at and damaging files -------------------------------------------------------------- */

bool fakeos_file_exists(struct fakeos *fake, const char *path);
uint64_t fakeos_file_size(struct fakeos *fake, const char *path);
/* The number of files in a directory whose names contain `part` (NULL: all files). */
unsigned fakeos_file_count(struct fakeos *fake, const char *dir, const char *part);
/* These calls change cached and durable content alike. */
void fakeos_file_read(struct fakeos *fake, const char *path, uint64_t offset, void *out,
                      size_t len);
void fakeos_file_write(struct fakeos *fake, const char *path, uint64_t offset, const void *bytes,
                       size_t len);
void fakeos_file_flip(struct fakeos *fake, const char *path, uint64_t offset, unsigned bit);
void fakeos_file_resize(struct fakeos *fake, const char *path, uint64_t bytes);
void fakeos_file_remove(struct fakeos *fake, const char *path);

#endif
