/* Commands about sensors and of sensors: see handler.h. */
#ifndef TN_SERVER_SENSOR_H
#define TN_SERVER_SENSOR_H

#include "server/request.h"

/* Whether the user may define programs. NOPERM: `detail` names the alternative. */
enum tn_result server_program_judge(struct server_request *request);

#endif
