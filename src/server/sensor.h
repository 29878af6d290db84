/* Commands about sensors and of sensors: see handler.h. */
#ifndef TN_SERVER_SENSOR_H
#define TN_SERVER_SENSOR_H

#include "server/request.h"

struct supervisor;

/* Whether the user may define programs. NOPERM: `detail` names the alternative. */
enum tn_result server_program_judge(struct server_request *request);
/* Writes one map: the sensor and its process, as SENSOR STATUS returns them. */
void server_sensor_status_write(struct supervisor *supervisor, struct protocol_writer *w,
                                const struct kernel_sensor_view *view, uint32_t more);

#endif
