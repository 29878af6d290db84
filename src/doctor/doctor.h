/* `tenure doctor`: looks at everything that a server needs from its machine, and says what to do.
 *
 * It reads the configuration as tenured does, and changes nothing: the one file that it writes, to measure
 * the disk, has no name any more when it is written. It needs neither a server nor privileges; where it
 * may not look, it says so. Findings are printed as they are made, a line each:
 *
 *   ok        nothing to do
 *   unknown   it could not look
 *   warning   the server runs, but something will hurt
 *   problem   the server does not start, or loses what it promises
 *
 * Exit codes: 0 no problem, 1 a problem (with --strict also a warning), 2 usage error. */
#ifndef TN_DOCTOR_DOCTOR_H
#define TN_DOCTOR_DOCTOR_H

#include "cli/cli.h"

int doctor_run(const struct cli_settings *settings, int argc, char **argv);

#endif
